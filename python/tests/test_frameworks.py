"""The callbacks for Lightning and Transformers, on the CPU under a budget and on a card that is not here. Each test is skipped where its
library is not installed."""

import importlib.util
import pathlib
import sys
import unittest

import maxbatch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import framework_functions


def needs(*libraries):
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"{' and '.join(missing)} is not installed")


class Framework(unittest.TestCase):
    def check(self, came, budget):
        result = came["result"]
        self.assertEqual(result.proof, "bracketed", result)
        self.assertGreater(result.batch_size, 8)
        self.assertEqual(result.next_batch_size, result.batch_size + 1)
        self.assertLessEqual(result.peak_reserved_bytes, budget)
        self.assertEqual(came["batch_size"], result.batch_size)
        if result.evidence != "dry":  # where all values are zeros
            self.assertTrue(came["is_put_back"], "the search changed the model's weights")
        self.assertEqual(came["last_steps"], [result.batch_size] * 2, "the training took another batch size")


@needs("lightning")
class Lightning(Framework):
    def test_on_the_cpu(self):
        self.check(framework_functions.lightning_fit("cpu", "16MiB"), 16 << 20)

    def test_on_a_card_that_is_not_here(self):
        run = maxbatch.dry_run("rtx-2080-ti", framework_functions.lightning_fit, "gpu", "64MiB")
        self.check(run.value, 64 << 20)
        self.assertEqual(run.value["result"].evidence, "dry")

    def test_options_are_those_of_find(self):
        came = framework_functions.lightning_fit("cpu", "16MiB", multiple_of=8)
        self.assertEqual(came["batch_size"] % 8, 0)
        self.assertEqual(came["result"].next_batch_size, came["batch_size"] + 8)

    def test_what_has_no_batch_size_is_said(self):
        with self.assertRaisesRegex(RuntimeError, "neither the datamodule nor the module has 'batch_size'"):
            framework_functions.lightning_fit("cpu", "16MiB", framework_functions.lightning_module(has_batch_size=False))

    def test_optimizers_that_the_module_steps_are_refused(self):
        with self.assertRaisesRegex(RuntimeError, "automatic_optimization=False"):
            framework_functions.lightning_fit("cpu", "16MiB", framework_functions.lightning_module(manual=True))

    def test_nothing_fits(self):
        with self.assertRaisesRegex(RuntimeError, "MaxBatchFinder: Nothing fits"):
            framework_functions.lightning_fit("cpu", "4MiB")


@needs("transformers", "accelerate")
class Transformers(Framework):
    def test_on_the_cpu(self):
        self.check(framework_functions.transformers_train(True, "16MiB"), 16 << 20)

    def test_on_a_card_that_is_not_here(self):
        run = maxbatch.dry_run("rtx-2080-ti", framework_functions.transformers_train, False, "64MiB")
        self.check(run.value, 64 << 20)
        self.assertEqual(run.value["result"].evidence, "dry")

    def test_gradients_are_resident_where_they_accumulate(self):
        once = framework_functions.transformers_train(True, "16MiB")["batch_size"]
        twice = framework_functions.transformers_train(True, "16MiB", accumulation=2)["batch_size"]
        self.assertLessEqual(twice, once)


class WithoutTheLibrary(unittest.TestCase):
    @unittest.skipIf(importlib.util.find_spec("lightning") or importlib.util.find_spec("pytorch_lightning"), "lightning is installed")
    def test_one_clear_sentence(self):
        with self.assertRaisesRegex(ImportError, "maxbatch.lightning needs Lightning: pip install lightning"):
            import maxbatch.lightning  # noqa: F401


if __name__ == "__main__":
    unittest.main()
