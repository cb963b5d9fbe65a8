"""Keeps what a step changes, in host memory, and puts it back in place: the same tensors, so that others see it."""

import copy
import random
import sys


def _to_host(value):
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: _to_host(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_to_host(one) for one in value)
    return copy.deepcopy(value)


def _write(tensor, kept):
    import torch

    with torch.no_grad():
        tensor.copy_(kept)


class ModuleGuard:
    def __init__(self, module):
        self.module = module
        self.flags = [(part, part.training) for part in module.modules()]
        self.parameters = [
            (one, _to_host(one), one.requires_grad, one.grad, None if one.grad is None else _to_host(one.grad)) for one in module.parameters()
        ]
        self.buffers = [(one, _to_host(one)) for one in module.buffers()]

    def restore_structure(self):
        for part, training in self.flags:
            part.training = training
        for parameter, _, requires_grad, gradient, _ in self.parameters:
            parameter.requires_grad_(requires_grad)
            parameter.grad = gradient

    def restore_values(self):
        for parameter, kept, _, gradient, kept_gradient in self.parameters:
            _write(parameter, kept)
            if gradient is not None:
                _write(gradient, kept_gradient)
        for buffer, kept in self.buffers:
            _write(buffer, kept)


class OptimizerGuard:
    """State that did not exist goes away again; options of the groups come back."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.state = [
            (parameter, {name: (value, _to_host(value)) for name, value in state.items()}) for parameter, state in optimizer.state.items()
        ]
        self.groups = [{name: copy.deepcopy(value) for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
        self.parameters = [list(group["params"]) for group in optimizer.param_groups]

    def restore_structure(self):
        self.optimizer.state.clear()
        for parameter, state in self.state:
            self.optimizer.state[parameter] = {name: value for name, (value, _) in state.items()}
        del self.optimizer.param_groups[len(self.groups):]
        for group, options, parameters in zip(self.optimizer.param_groups, self.groups, self.parameters):
            group.clear()
            group.update(params=list(parameters), **copy.deepcopy(options))

    def restore_values(self):
        import torch

        for parameter, state in self.state:
            for name, (value, kept) in state.items():
                if isinstance(value, torch.Tensor):
                    _write(value, kept)
                else:
                    self.optimizer.state[parameter][name] = copy.deepcopy(kept)


class TensorGuard:
    def __init__(self, tensor):
        self.tensor, self.kept = tensor, _to_host(tensor)
        self.gradient = tensor.grad if tensor.is_leaf else None
        self.kept_gradient = None if self.gradient is None else _to_host(self.gradient)

    def restore_structure(self):
        if self.tensor.is_leaf:
            self.tensor.grad = self.gradient

    def restore_values(self):
        _write(self.tensor, self.kept)
        if self.gradient is not None:
            _write(self.gradient, self.kept_gradient)


class StateDictGuard:
    """Schedulers, gradient scalers, and whatever else has a state_dict and takes it back."""

    def __init__(self, owner):
        self.owner, self.kept = owner, _to_host(owner.state_dict())

    def restore_structure(self):
        self.restore_values()

    def restore_values(self):
        self.owner.load_state_dict(copy.deepcopy(self.kept))


class PythonRandomGuard:
    """LibTorch's own generators are the C++ library's matter."""

    def __init__(self):
        self.kept = random.getstate()
        self.numpy = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None

    def restore_structure(self):
        random.setstate(self.kept)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)

    restore_values = restore_structure


def guard_of(state):
    import torch

    if isinstance(state, torch.nn.Module):
        return ModuleGuard(state)
    if isinstance(state, torch.optim.Optimizer):
        return OptimizerGuard(state)
    if isinstance(state, torch.Tensor):
        return TensorGuard(state)
    if hasattr(state, "state_dict") and hasattr(state, "load_state_dict"):
        return StateDictGuard(state)
    raise TypeError(
        f"preserve: nothing is known of a {type(state).__name__}; give modules, optimizers, tensors, or things with state_dict and load_state_dict"
    )


def check(states):
    """Before any work: the same complaint as guard_of, without copying anything."""
    import torch

    for state in states:
        known = isinstance(state, (torch.nn.Module, torch.optim.Optimizer, torch.Tensor))
        if not known and not (hasattr(state, "state_dict") and hasattr(state, "load_state_dict")):
            guard_of(state)
