#!/usr/bin/env python3
"""Asks CUDA's libraries on a real card how much scratch memory they want; the answers stand beside this file.

  ask_sizes.py OUTPUT-FOLDER        needs a card and PyTorch's own libraries

One line an answer, "KEY... VALUE..." with the meaning of each in the file's first line. What the dry card says in its stead is
checked against these files by tests/unit/dry_cuda.
"""

import ctypes as c
import itertools
import os
import sys

import torch

torch.zeros(1, device="cuda")
torch.linalg.inv(torch.eye(3, device="cuda"))  # loads the solvers
LOADED = {}


def library(soname):
    if soname not in LOADED:
        LOADED[soname] = c.CDLL(soname, mode=c.RTLD_GLOBAL)
    return LOADED[soname]


def created(function, *arguments):
    handle = c.c_void_p()
    status = function(c.byref(handle), *arguments)
    assert status == 0, status
    return handle


def size(value=0):
    return c.c_size_t(value)


def write(folder, name, header, lines):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
        out.write(f"# {header}\n# card: {torch.cuda.get_device_name()}\n")
        out.writelines(" ".join(str(word) for word in line) + "\n" for line in lines)
    print(name, len(lines))


def recurrent():
    dnn = library("libcudnn.so.9")
    handle = created(dnn.cudnnCreate)
    dropout = created(dnn.cudnnCreateDropoutDescriptor)
    dnn.cudnnSetDropoutDescriptor(dropout, handle, c.c_float(0), None, size(), c.c_ulonglong(0))
    states = size()
    dnn.cudnnDropoutGetStatesSize(handle, c.byref(states))
    print("dropout states", states.value, "multiprocessors", torch.cuda.get_device_properties(0).multi_processor_count)
    lines, offsets = [], []
    # As LibTorch asks: float with and without TF32, half standard and persistent, bfloat16, double; algorithm 3 is for small
    # hidden sizes.
    types = ((0, 0, 0), (0, 3, 0), (2, 1, 0), (2, 1, 1), (9, 0, 0), (1, 0, 0), (0, 0, 3), (0, 3, 3), (2, 1, 3), (9, 0, 3), (1, 0, 3))
    shapes = [(i, h, p, n) for i in (40, 128) for h, p in ((64, 64), (100, 100), (128, 128), (256, 256), (512, 512), (128, 32))
              for n in (1, 2, 3)]
    for mode, bidirectional, (data_type, math, algorithm) in itertools.product((0, 1, 2, 3), (0, 1), types):
        for inputs, hidden, projected, layers in shapes:
            if projected != hidden and mode != 2:
                continue
            descriptor = created(dnn.cudnnCreateRNNDescriptor)
            precision = data_type if data_type == 1 else 0
            if dnn.cudnnSetRNNDescriptor_v8(descriptor, algorithm, mode, 2, bidirectional, 0, data_type, precision, math, inputs,
                                            hidden, projected, layers, dropout, 1):
                continue
            weights = size()
            dnn.cudnnGetRNNWeightSpaceSize(handle, descriptor, c.byref(weights))
            if inputs == 40 and math == 0 and data_type == 0:
                for layer in range(layers * (1 + bidirectional)):
                    for linear in range(9):
                        matrix, bias = c.c_void_p(), c.c_void_p()
                        md, bd = created(dnn.cudnnCreateTensorDescriptor), created(dnn.cudnnCreateTensorDescriptor)
                        base = 1 << 40
                        status = dnn.cudnnGetRNNWeightParams(handle, descriptor, layer, weights, c.c_void_p(base), linear, md,
                                                             c.byref(matrix), bd, c.byref(bias))
                        if status == 0 and (matrix.value or bias.value):
                            t, n, d, s = c.c_int(), c.c_int(), (c.c_int * 3)(), (c.c_int * 3)()
                            dnn.cudnnGetTensorNdDescriptor(md, 3, c.byref(t), c.byref(n), d, s)
                            offsets.append((mode, bidirectional, inputs, hidden, projected, layers, layer, linear,
                                            (matrix.value or base - 1) - base, (bias.value or base - 1) - base, d[1], d[2]))
            for steps, batch, layout in ((1, 1, 0), (10, 8, 0), (35, 20, 0), (50, 64, 0), (7, 3, 0), (35, 20, 1), (35, 20, 2)):
                data = created(dnn.cudnnCreateRNNDataDescriptor)
                lengths = (c.c_int * batch)(*([steps] * batch))
                fill = c.c_double(0)
                if dnn.cudnnSetRNNDataDescriptor(data, data_type, layout, steps, batch, inputs, lengths, c.byref(fill)):
                    continue
                answer = []
                for training in (0, 1):
                    work, reserve = size(), size()
                    status = dnn.cudnnGetRNNTempSpaceSizes(handle, descriptor, training, data, c.byref(work), c.byref(reserve))
                    answer += [work.value, reserve.value] if status == 0 else [-status, -status]
                lines.append((mode, bidirectional, data_type, math, algorithm, inputs, hidden, projected, layers, steps, batch, layout,
                              weights.value, *answer))
                dnn.cudnnDestroyRNNDataDescriptor(data)
    return lines, offsets


def dense():
    solver = library("libcusolver.so.12")
    handle, parameters = created(solver.cusolverDnCreate), created(solver.cusolverDnCreateParams)
    jacobi, eigen_jacobi = created(solver.cusolverDnCreateGesvdjInfo), created(solver.cusolverDnCreateSyevjInfo)
    memory = torch.zeros(1 << 24, dtype=torch.double, device="cuda")
    a = c.c_void_p(memory.data_ptr())
    lines = []
    types = {"S": 0, "D": 1, "C": 4, "Z": 5}

    def ask(name, dimensions, *arguments):
        work = c.c_int(-1)
        status = getattr(solver, f"cusolverDn{name}_bufferSize")(handle, *arguments[0](work))
        lines.append((name, *dimensions, work.value if status == 0 else -1000 - status))

    def ask64(name, letter, dimensions, arguments, behind=()):
        on_card, on_host = size(), size()
        function = getattr(solver, f"cusolverDn{name}_bufferSize")
        status = function(handle, parameters, *arguments, c.byref(on_card), c.byref(on_host), *behind)
        lines.append((name + ":" + letter, *dimensions, on_card.value if status == 0 else -1000 - status, on_host.value))

    for letter, kind in types.items():
        real = letter in "SD"
        real_kind = kind & 1
        for n in (1, 2, 8, 16, 31, 32, 33, 64, 100, 128, 200, 256, 512, 513, 1000, 1024, 2048):
            r = c.byref
            ask(letter + "getrf", (n, n), lambda w: (n, n, a, n, r(w)))
            ask(letter + "potrf", (n, n), lambda w: (0, n, a, n, r(w)))
            ask(letter + "sytrf", (n, n), lambda w: (n, a, n, r(w)))
            ask(letter + ("syevd" if real else "heevd"), (n, n), lambda w: (1, 0, n, a, n, a, r(w)))
            ask(letter + ("syevj" if real else "heevj"), (n, n), lambda w: (1, 0, n, a, n, a, r(w), eigen_jacobi))
            for batch in (2, 64):
                ask(letter + ("syevjBatched" if real else "heevjBatched"), (n, batch),
                    lambda w: (1, 0, n, a, n, a, r(w), eigen_jacobi, batch))
                ask(letter + "gesvdjBatched", (n, batch), lambda w: (1, n, n, a, n, a, a, n, a, n, r(w), jacobi, batch))
            for m in {n, 2 * n, max(1, n // 2)}:
                small = min(m, n)
                ask(letter + "geqrf", (m, n), lambda w: (m, n, a, m, r(w)))
                if m >= n:
                    ask(letter + "gesvd", (m, n), lambda w: (m, n, r(w)))
                    ask(letter + ("orgqr" if real else "ungqr"), (m, n), lambda w: (m, n, n, a, m, a, r(w)))
                    ask(letter + ("ormqr" if real else "unmqr"), (m, n),
                        lambda w: (0, 1 if real else 2, m, n, n, a, m, a, a, m, r(w)))
                ask(letter + "gesvdj", (m, n), lambda w: (1, 1, m, n, a, m, a, a, m, a, n, r(w), jacobi))
                for batch in (1, 4):
                    ask(letter + "gesvdaStridedBatched", (m, n, batch), lambda w: (
                        1, small, m, n, a, m, c.c_longlong(m * n), a, c.c_longlong(small), a, m, c.c_longlong(m * small), a, n,
                        c.c_longlong(n * small), r(w), batch))
                q = c.c_int64
                ask64("Xgeqrf", letter, (m, n), (q(m), q(n), kind, a, q(m), kind, a, kind))
            ask64("Xpotrf", letter, (n, n), (0, q(n), kind, a, q(n), kind))
            ask64("Xsyevd", letter, (n, n), (1, 0, q(n), kind, a, q(n), real_kind, a, kind))
            ask64("XsyevBatched", letter, (n, 1), (1, 0, q(n), kind, a, q(n), real_kind, a, kind), (q(1),))
            ask64("XsyevBatched", letter, (n, 16), (1, 0, q(n), kind, a, q(n), real_kind, a, kind), (q(16),))
            complex_kind = 4 if kind in (0, 4) else 5
            ask64("Xgeev", letter, (n, n), (0, 1, q(n), kind, a, q(n), complex_kind, a, kind, a, q(n), kind, a, q(n), kind))
    return lines


def fourier():
    fft = library("libcufft.so.12")
    lines = []
    lengths = [(n,) for n in (2, 7, 16, 31, 64, 97, 100, 127, 128, 200, 256, 500, 509, 512, 1000, 1009, 1024, 2048, 4096, 4099,
                              8192, 10000, 16384, 65536, 100000, 131072, 1 << 20)]
    lengths += [(n, m) for n, m in ((8, 8), (14, 14), (32, 32), (56, 56), (64, 33), (100, 100), (128, 128), (224, 224), (256, 256),
                                    (512, 512), (1024, 1024), (127, 127), (2048, 64))]
    lengths += [(8, 8, 8), (32, 32, 32), (64, 64, 64), (100, 50, 20), (128, 128, 128)]
    kinds = {"c2c": ("C", "C"), "r2c": ("R", "C"), "c2r": ("C", "R")}
    types = {"half": {"R": 2, "C": 6}, "float": {"R": 0, "C": 4}, "double": {"R": 1, "C": 5}}
    for type_name, codes in types.items():
        for kind, (source, target) in kinds.items():
            for dimensions in lengths:
                for batch in (1, 2, 16, 300):
                    plan, work = c.c_int(), size()
                    fft.cufftCreate(c.byref(plan))
                    fft.cufftSetAutoAllocation(plan, 0)
                    n = (c.c_longlong * len(dimensions))(*dimensions)
                    execution = codes["C"]
                    total = 1
                    for d in dimensions:
                        total *= d
                    if total * batch > 1 << 27:
                        fft.cufftDestroy(plan)
                        continue
                    status = fft.cufftXtMakePlanMany(plan, len(dimensions), n, None, c.c_longlong(1), c.c_longlong(total), codes[source],
                                                     None, c.c_longlong(1), c.c_longlong(total), codes[target], c.c_longlong(batch),
                                                     c.byref(work), execution)
                    lines.append((type_name, kind, "x".join(map(str, dimensions)), batch, work.value if status == 0 else -status))
                    fft.cufftDestroy(plan)
    return lines


def temporal():
    """Connectionist temporal classification."""
    dnn = library("libcudnn.so.9")
    handle = created(dnn.cudnnCreate)
    lines = []
    for algorithm, steps, batch, alphabet, label in itertools.product((0, 1), (10, 50, 200), (1, 4, 16), (20, 100), (1, 5, 10, 40)):
        descriptor = created(dnn.cudnnCreateCTCLossDescriptor)
        dnn.cudnnSetCTCLossDescriptor_v9(descriptor, 0, 1, 0, label)
        shape, strides = (c.c_int * 3)(steps, batch, alphabet), (c.c_int * 3)(batch * alphabet, alphabet, 1)
        tensor = created(dnn.cudnnCreateTensorDescriptor)
        dnn.cudnnSetTensorNdDescriptor(tensor, 0, 3, shape, strides)
        work = size()
        status = dnn.cudnnGetCTCLossWorkspaceSize_v8(handle, algorithm, descriptor, tensor, tensor, c.byref(work))
        lines.append((algorithm, steps, batch, alphabet, label, work.value if status == 0 else -status))
    return lines


def batch_norm():
    dnn = library("libcudnn.so.9")
    handle = created(dnn.cudnnCreate)
    lines = []
    sizes = [(n, c_, h) for n in (1, 2, 8, 32, 64) for c_ in (3, 4, 16, 32, 64, 96, 128, 256, 512, 1024, 2048) for h in (1, 7, 14, 32, 56, 112)]
    for mode, kind, (n, channels, side) in itertools.product((1, 2), (0, 2), sizes):
        if n * channels * side * side > 1 << 27:
            continue
        x, s = created(dnn.cudnnCreateTensorDescriptor), created(dnn.cudnnCreateTensorDescriptor)
        shape = (c.c_int * 4)(n, channels, side, side)
        last = (c.c_int * 4)(channels * side * side, 1, side * channels, channels)
        first = (c.c_int * 4)(channels * side * side, side * side, side, 1)
        dnn.cudnnSetTensorNdDescriptor(x, kind, 4, shape, last if mode == 2 else first)
        dnn.cudnnDeriveBNTensorDescriptor(s, x, mode)
        forward, backward, reserve = size(), size(), size()
        a = dnn.cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(handle, mode, 0, x, None, x, s, None, c.byref(forward))
        b = dnn.cudnnGetBatchNormalizationBackwardExWorkspaceSize(handle, mode, 0, x, x, x, None, x, s, None, c.byref(backward))
        r = dnn.cudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle, mode, 0, None, x, c.byref(reserve))
        lines.append((mode, kind, n, channels, side, forward.value if a == 0 else -a, backward.value if b == 0 else -b,
                      reserve.value if r == 0 else -r))
    return lines


def sparse():
    sp = library("libcusparse.so.12")
    handle = created(sp.cusparseCreate)
    memory = torch.zeros(1 << 20, device="cuda")
    p = c.c_void_p(memory.data_ptr())
    one = c.c_float(1)
    lines = []
    q = c.c_int64
    for rows, per_row, columns in itertools.product((10, 100, 1000, 5000), (1, 3, 20), (1, 8, 32, 100)):
        nonzeros = rows * min(rows, per_row)
        def csr():
            return created(sp.cusparseCreateCsr, q(rows), q(rows), q(nonzeros), p, p, p, 2, 2, 0, 0)
        def coo():
            return created(sp.cusparseCreateCoo, q(rows), q(rows), q(nonzeros), p, p, p, 2, 0, 0)
        dense = [created(sp.cusparseCreateDnMat, q(rows), q(columns), q(columns), p, 0, 2) for _ in range(2)]
        across = created(sp.cusparseCreateDnMat, q(columns), q(rows), q(rows), p, 0, 2)
        vectors = [created(sp.cusparseCreateDnVec, q(rows), p, 0) for _ in range(2)]
        for name, matrix in (("csr", csr()), ("coo", coo())):
            work = size()
            for algorithm in (0, 1, 2, 3, 4, 5, 6):
                if sp.cusparseSpMM_bufferSize(handle, 0, 0, c.byref(one), matrix, dense[0], c.byref(one), dense[1], 0, algorithm, c.byref(work)) == 0:
                    lines.append((f"SpMM-{name}-{algorithm}", rows, nonzeros, columns, work.value))
            if columns == 1 and sp.cusparseSpMV_bufferSize(handle, 0, c.byref(one), matrix, vectors[0], c.byref(one), vectors[1], 0, 0, c.byref(work)) == 0:
                lines.append((f"SpMV-{name}", rows, nonzeros, 1, work.value))
        work = size()
        if sp.cusparseSDDMM_bufferSize(handle, 0, 0, c.byref(one), dense[0], across, c.byref(one), csr(), 0, 0, c.byref(work)) == 0:
            lines.append(("SDDMM-csr", rows, nonzeros, columns, work.value))
        if columns == 1:
            sp.cusparseXcsrsort_bufferSizeExt(handle, rows, rows, nonzeros, p, p, c.byref(work))
            lines.append(("csrsort", rows, nonzeros, 1, work.value))
            sp.cusparseXcoosort_bufferSizeExt(handle, rows, rows, nonzeros, p, p, c.byref(work))
            lines.append(("coosort", rows, nonzeros, 1, work.value))
            d = created(sp.cusparseCreateMatDescr)
            sp.cusparseScsrgeam2_bufferSizeExt(handle, rows, rows, c.byref(one), d, nonzeros, p, p, p, c.byref(one), d, nonzeros, p, p, p, d, p, p, p, c.byref(work))
            lines.append(("csrgeam2", rows, nonzeros, 1, work.value))
    return lines


def main():
    folder = sys.argv[1]
    write(folder, "bn_sizes.txt", "mode (1 spatial, 2 persistent and channels last) type N C side : forward, backward, reserve bytes", batch_norm())
    write(folder, "cusparse_sizes.txt", "function rows nonzeros columns : bytes", sparse())
    write(folder, "ctc_sizes.txt", "algorithm steps batch alphabet longest-label : bytes, or -status", temporal())
    answers, offsets = recurrent()
    write(folder, "rnn_sizes.txt", "mode bidirectional type math algorithm input hidden projected layers steps batch layout : weights, then "
          "workspace and reserve for inference and for training", answers)
    write(folder, "rnn_weights.txt", "mode bidirectional input hidden projected layers pseudo-layer linear : byte offsets of matrix and "
          "bias (-1: none), rows, columns", offsets)
    write(folder, "cusolver_sizes.txt", "function rows columns-or-batch ... : elements (Xname:TYPE: bytes on the card, on the host); "
          "-1000-status if refused", dense())
    write(folder, "cufft_sizes.txt", "type kind lengths batch : bytes, or -status", fourier())


main()
