"""python -m unittest discover -s python/tests: with the package installed, or with MAXBATCH_PYTHON_LIBRARIES and PYTHONPATH for a build tree."""

import gc
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import torch

import maxbatch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import dry_functions


class Counter(torch.nn.Module):
    """A buffer that each pass changes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x):
        self.passes += 1
        return x


def net_and_optimizer(width=256):
    net = torch.nn.Sequential(torch.nn.Linear(width, width), Counter(), torch.nn.ReLU(), torch.nn.Linear(width, 10))
    return net, torch.optim.AdamW(net.parameters())


def step_of(net, optimizer, width=256):
    def step(batch_size):
        optimizer.zero_grad()
        net(torch.randn(batch_size, width)).sum().backward()
        optimizer.step()

    return step


def everything(net, optimizer):
    return {name: value.clone() for name, value in net.state_dict().items()}, optimizer.state_dict()["state"], torch.get_rng_state(), random.getstate()


class Find(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        gc.collect()

    def test_the_boundary_is_between_a_size_that_ran_and_one_that_failed_twice(self):
        net, optimizer = net_and_optimizer()
        result = maxbatch.find(step_of(net, optimizer), preserve=[net, optimizer], device="cpu", budget="8MiB")
        self.assertEqual(result.proof, "bracketed")
        self.assertGreater(result.batch_size, 100)
        self.assertEqual(result.next_batch_size, result.batch_size + 1)
        failures = [trial for trial in result.trials if trial.batch_size == result.next_batch_size]
        self.assertEqual([trial.outcome for trial in failures], ["out of memory"] * 2)
        self.assertEqual(result.evidence, "cpu")
        self.assertEqual(result.budget_bytes, 8 << 20)
        self.assertLessEqual(result.peak_reserved_bytes, 8 << 20)
        self.assertGreater(result.failed_request_bytes, 0)
        self.assertIn(f"{result.batch_size} fits", str(result))
        self.assertIn("<table>", result._repr_html_())

    def test_everything_is_put_back_in_place(self):
        net, optimizer = net_and_optimizer()
        step_of(net, optimizer)(4)  # there are gradients and state already
        weight, gradient = net[0].weight, net[0].weight.grad
        gradient_before = gradient.clone()
        state = optimizer.state[weight]["exp_avg"]
        before = everything(net, optimizer)
        kept = state.clone()
        maxbatch.find(step_of(net, optimizer), preserve=[net, optimizer], device="cpu", budget="8MiB", max_trials=3)
        after = everything(net, optimizer)
        for name, value in before[0].items():
            self.assertTrue(torch.equal(value, after[0][name]), name)
        self.assertIs(net[0].weight, weight)
        self.assertIs(net[0].weight.grad, gradient)
        self.assertTrue(torch.equal(gradient, gradient_before))
        self.assertIs(optimizer.state[weight]["exp_avg"], state)
        self.assertTrue(torch.equal(state, kept))
        self.assertEqual(float(optimizer.state[weight]["step"]), 1.0)
        self.assertTrue(torch.equal(before[2], after[2]))
        self.assertEqual(before[3], after[3])

    def test_state_that_did_not_exist_is_gone_again(self):
        net, optimizer = net_and_optimizer()
        net.eval()
        maxbatch.find(step_of(net, optimizer), preserve=[net, optimizer], device="cpu", budget="8MiB", max_trials=2)
        self.assertEqual(len(optimizer.state), 0)
        self.assertTrue(all(parameter.grad is None for parameter in net.parameters()))
        self.assertFalse(net.training)

    def test_forgetting_to_preserve_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "give preserve="):
            maxbatch.find(lambda batch_size: None)

    def test_what_cannot_be_preserved_is_said(self):
        with self.assertRaisesRegex(TypeError, "nothing is known of a int"):
            maxbatch.find(lambda batch_size: None, preserve=[3])

    def test_options_are_inclusive(self):
        result = maxbatch.find(lambda batch_size: torch.zeros(batch_size), preserve=[], device="cpu", budget="8MiB", maximum=5)
        self.assertEqual((result.batch_size, result.proof), (5, "at the allowed maximum"))
        result = maxbatch.find(lambda batch_size: torch.zeros(batch_size), preserve=[], device="cpu", budget="8MiB", divisor_of=96, maximum=40)
        self.assertEqual(result.batch_size, 32)

    def test_bad_options_are_refused_before_anything_runs(self):
        with self.assertRaisesRegex(ValueError, "steps"):
            maxbatch.find(self.fail, preserve=[], device="cpu", steps=0)
        with self.assertRaisesRegex(ValueError, "budget is '8 potatoes'"):
            maxbatch.find(self.fail, preserve=[], device="cpu", budget="8 potatoes")
        with self.assertRaisesRegex(ValueError, "device is 'tpu'"):
            maxbatch.find(self.fail, preserve=[], device="tpu")

    def test_an_exception_at_the_smallest_size_is_the_same_object(self):
        error = KeyError("the user's own")

        def step(batch_size):
            raise error

        with self.assertRaises(KeyError) as caught:
            maxbatch.find(step, preserve=[], device="cpu", budget="8MiB")
        self.assertIs(caught.exception, error)

    def test_an_exception_at_a_larger_size_is_the_reason(self):
        def step(batch_size):
            if batch_size > 3:
                raise RuntimeError("shapes differ")
            torch.zeros(batch_size)

        result = maxbatch.find(step, preserve=[], device="cpu", budget="8MiB", maximum=8)
        self.assertEqual((result.batch_size, result.proof), (3, "other limit"))
        self.assertIn("shapes differ", result.reason)

    def test_ctrl_c_ends_the_search_and_is_raised(self):
        net, optimizer = net_and_optimizer()
        before = net[0].weight.clone()
        calls = []

        def step(batch_size):
            calls.append(batch_size)
            step_of(net, optimizer)(batch_size)
            if len(calls) == 5:
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            maxbatch.find(step, preserve=[net, optimizer], device="cpu", budget="64MiB")
        self.assertEqual(len(calls), 5)
        self.assertTrue(torch.equal(net[0].weight, before))

    def test_each_trial_is_told(self):
        seen = []
        result = maxbatch.find(lambda batch_size: torch.zeros(batch_size), preserve=[], device="cpu", budget="8MiB", maximum=2, on_trial=seen.append)
        self.assertEqual([trial.batch_size for trial in seen], [trial.batch_size for trial in result.trials])


class FindExecutableBatchSize(unittest.TestCase):
    def test_upward_search_then_the_whole_function(self):
        whole_runs = []

        @maxbatch.find_executable_batch_size(starting_batch_size=4, device="cpu", budget="8MiB")
        def train(batch_size, epochs):
            net, optimizer = net_and_optimizer()
            for _ in range(epochs):
                step_of(net, optimizer)(batch_size)
            whole_runs.append(batch_size)
            return "trained"

        self.assertEqual(train(8), "trained")
        self.assertEqual(whole_runs, [train.result.batch_size])
        self.assertGreater(train.result.batch_size, 100)
        self.assertEqual(train.result.next_batch_size, train.result.batch_size + 1)

    def test_without_upward_search_the_start_is_the_largest(self):
        @maxbatch.find_executable_batch_size(starting_batch_size=4, search_upward=False, device="cpu", budget="8MiB")
        def train(batch_size):
            step_of(*net_and_optimizer())(batch_size)
            return batch_size

        self.assertEqual(train(), 4)

    def test_as_accelerate_says_it(self):
        @maxbatch.find_executable_batch_size
        def train(batch_size, rate):
            pass

        with self.assertRaisesRegex(TypeError, "batch size is given to `train`"):
            train(8, 0.1)
        with self.assertRaisesRegex(ValueError, "reduce_batch_size_fn"):
            maxbatch.find_executable_batch_size(reduce_batch_size_fn=lambda: 1)(train)

    def test_nothing_fits(self):
        @maxbatch.find_executable_batch_size(device="cpu", budget="1MiB")
        def train(batch_size):
            step_of(*net_and_optimizer(1024), width=1024)(batch_size)

        with self.assertRaisesRegex(RuntimeError, "no executable batch size: Nothing fits"):
            train()


class DryRun(unittest.TestCase):
    def test_a_functions_result_comes_back(self):
        run = maxbatch.dry_run("rtx-2080-ti", dry_functions.train, 64, steps=2)
        self.assertTrue(run.fits)
        self.assertEqual(run.value["name"], "NVIDIA GeForce RTX 2080 Ti")
        self.assertEqual(run.value["loss"].device.type, "cpu")
        self.assertGreater(run.peak_allocated_bytes, 2048 * 2048 * 4)
        self.assertFalse(torch.cuda.is_initialized())

    def test_out_of_memory_is_an_answer(self):
        run = maxbatch.fits_in("rtx-2080-ti", dry_functions.train, 2_000_000)
        self.assertFalse(run)
        self.assertGreater(run.failed_request_bytes, 0)
        self.assertIn("does not fit in rtx-2080-ti", repr(run))
        self.assertIn("OutOfMemoryError", run.error)

    def test_a_decorator_and_a_checker(self):
        self.assertTrue(maxbatch.dry_run("h200")(dry_functions.train)(8).fits)
        self.assertTrue(maxbatch.fits_in("h200")(dry_functions.train, 8))
        with self.assertRaisesRegex(TypeError, "was not given a function"):
            bool(maxbatch.fits_in("h200"))

    def test_another_failure_is_raised(self):
        with self.assertRaisesRegex(maxbatch.DryRunFailed, "ValueError: not today") as caught:
            maxbatch.dry_run("h200", dry_functions.fail)
        self.assertFalse(caught.exception.run.fits)

    def test_a_card_that_is_not_known(self):
        with self.assertRaisesRegex(ValueError, "no card is called 'rtx-3091'; did you mean 'rtx-3090'"):
            maxbatch.dry_run("rtx-3091", dry_functions.train, 1)

    def test_a_local_function_needs_cloudpickle(self):
        try:
            import cloudpickle  # noqa: F401
        except ImportError:
            with self.assertRaisesRegex(TypeError, "cannot be sent to another process"):
                maxbatch.dry_run("h200", lambda: None)
        else:
            self.assertEqual(maxbatch.dry_run("h200", lambda: torch.zeros(3, device="cuda").numel()).value, 3)

    def test_a_function_of_a_script_that_runs(self):
        script = "import torch, maxbatch\n\ndef count():\n    return torch.zeros(5, device='cuda').numel()\n\nif __name__ == '__main__':\n    print('value', maxbatch.dry_run('h200', count).value)\n"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "script.py"
            path.write_text(script)
            ran = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
        self.assertIn("value 5", ran.stdout, ran.stderr)


    def test_a_script_without_a_guard_is_told_so(self):
        script = "import torch, maxbatch\n\ndef count():\n    return 5\n\nmaxbatch.dry_run('h200', count)\n"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "script.py"
            path.write_text(script)
            ran = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
        self.assertIn("put what starts it under if __name__ == '__main__':", ran.stderr)


class AnotherTorch(unittest.TestCase):
    def import_with(self, torch_source):
        with tempfile.TemporaryDirectory() as folder:
            if torch_source is not None:
                (pathlib.Path(folder) / "torch.py").write_text(torch_source)
            program = f"import sys; sys.path.insert(0, {folder!r}); sys.path.append({str(pathlib.Path(maxbatch.__file__).parents[1])!r})\nimport maxbatch"
            ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        return ran.stderr.strip().splitlines()[-1]

    def test_one_clear_sentence(self):
        self.assertEqual(
            self.import_with("__version__ = '2.9.1+cu130'"),
            "ImportError: maxbatch 0.1.0 is compiled for torch 2.11, whose allocator it knows, and this is torch 2.9.1+cu130: "
            "pip install 'torch==2.11.*', or a maxbatch for that version",
        )


if __name__ == "__main__":
    unittest.main()
