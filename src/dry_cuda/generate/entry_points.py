#!/usr/bin/env python3
"""Writes default answers for every entry point of CUDA's public headers.

  entry_points.py --include DIR... --output DIR [--family NAME...] [--compiler WORD...]
  entry_points.py --include DIR... --list        NAME, library and answer of each entry point, one a line

One file a family, generated_<family>.cpp. Its definitions are weak, so that a function written by hand in any other file of
the same library goes before them. The answers are in answers.txt; a function that no line of it knows is not supported on a
dry card, and says so by name.
"""

import argparse
import fnmatch
import os
import re
import sys
from dataclasses import dataclass

import declarations

ANSWERS = ("unsupported", "nothing", "kernel", "large-kernel", "zero-result", "no-scratch", "measured", "real")
HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Family:
    name: str
    header: str
    prefix: str  # a regular expression that its functions' names begin with
    status: str = ""  # the type that a call returns
    success: str = ""
    unsupported: str = ""
    library: str = ""
    per_thread: bool = False  # has a second name per function for the per-thread default stream
    first_names: bool = False  # exports the first name of a function beside the second, which the header alone declares
    optional: bool = False  # the header may be missing: LibTorch can be built without the library


FAMILIES = [
    Family("runtime", "cuda_runtime_api.h", r"cuda[A-Z]", "cudaError_t", "cudaSuccess", "cudaErrorNotSupported", "libcudart",
           per_thread=True),
    Family("driver", "cuda.h", r"cu[A-Z]", "CUresult", "CUDA_SUCCESS", "CUDA_ERROR_NOT_SUPPORTED", "libcuda", per_thread=True,
           first_names=True),
    Family("cublas", "cublas_api.h", r"cublas(?!Lt|Xt)", "cublasStatus_t", "CUBLAS_STATUS_SUCCESS",
           "CUBLAS_STATUS_NOT_SUPPORTED", "libcublas"),
    Family("cublasLt", "cublasLt.h", r"cublasLt", "cublasStatus_t", "CUBLAS_STATUS_SUCCESS", "CUBLAS_STATUS_NOT_SUPPORTED",
           "libcublasLt"),
    Family("cudnn", "cudnn.h", r"cudnn", "cudnnStatus_t", "CUDNN_STATUS_SUCCESS", "CUDNN_STATUS_NOT_SUPPORTED", "libcudnn"),
    Family("cusparse", "cusparse.h", r"cusparse(?!Lt)", "cusparseStatus_t", "CUSPARSE_STATUS_SUCCESS",
           "CUSPARSE_STATUS_NOT_SUPPORTED", "libcusparse"),
    Family("cusolver", "cusolverDn.h", r"cusolver", "cusolverStatus_t", "CUSOLVER_STATUS_SUCCESS",
           "CUSOLVER_STATUS_NOT_SUPPORTED", "libcusolver"),
    Family("cusparseLt", "cusparseLt.h", r"cusparseLt", "cusparseStatus_t", "CUSPARSE_STATUS_SUCCESS",
           "CUSPARSE_STATUS_NOT_SUPPORTED", "libcusparseLt", optional=True),
    Family("cufft", "cufftXt.h", r"cufft", "cufftResult", "CUFFT_SUCCESS", "CUFFT_NOT_SUPPORTED", "libcufft"),
    Family("curand", "curand.h", r"curand", "curandStatus_t", "CURAND_STATUS_SUCCESS", "CURAND_STATUS_INTERNAL_ERROR",
           "libcurand"),
    Family("nccl", "nccl.h", r"nccl", "ncclResult_t", "ncclSuccess", "ncclInvalidUsage", "libnccl", optional=True),
    Family("nvrtc", "nvrtc.h", r"nvrtc", "nvrtcResult", "NVRTC_SUCCESS", "NVRTC_ERROR_INTERNAL_ERROR", "libnvrtc"),
    Family("cupti", "cupti.h", r"cupti", "CUptiResult", "CUPTI_SUCCESS", "CUPTI_ERROR_NOT_SUPPORTED", "libcupti",
           optional=True),
    Family("cufile", "cufile.h", r"cuFile", "CUfileError_t", "CUfileError_t{CU_FILE_SUCCESS, CUDA_SUCCESS}",
           "CUfileError_t{CU_FILE_PLATFORM_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED}", "libcufile", optional=True),
]

# Exported by the runtime for what nvcc writes, and in no public header: written by hand, or missing with their name.
FOR_THE_COMPILER = re.compile(r"__cuda[A-Z]|__nv")
SIZE_OUTPUT = re.compile(r"lwork|buffer_?size|worksp?a?c?e?_?(size|in_?bytes)|size_?in_?bytes|^p?size$|bytes", re.IGNORECASE)
SIZE_TYPES = {"size_t*", "int*", "int64_t*", "long long*"}


def read_answers(path):
    """family -> [(pattern, answer, reason)], in the file's order."""
    table, family = {}, None
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            family = line.strip("[]")
            table[family] = []
            continue
        words, _, reason = line.partition("|")
        answer, *patterns = words.split()
        if family is None or answer not in ANSWERS or not patterns or not reason.strip():
            raise SystemExit(f"{path}:{number}: not ANSWER PATTERN... | why")
        table[family] += [(pattern, answer, reason.strip()) for pattern in patterns]
    unknown = set(table) - {f.name for f in FAMILIES}
    if unknown:
        raise SystemExit(f"{path}: no such family: {', '.join(sorted(unknown))}")
    return table


def answer_for(name, lines):
    found = ("unsupported", "no line of answers.txt knows it")
    for pattern, answer, reason in lines:
        if fnmatch.fnmatchcase(name, pattern):
            found = (answer, reason)
    return found


def unused_patterns(functions, lines):
    return [p for p, _, _ in lines if not any(fnmatch.fnmatchcase(n, p) for n in functions)]


def size_outputs(function):
    return [p.name for p in function.parameters
            if p.type.replace(" ", "") in SIZE_TYPES and SIZE_OUTPUT.search(p.name) and "const" not in p.type.split()]


def failing_value(family, function):
    """What a function returns that can not say "not supported" in a status."""
    returns = function.returns.replace(" ", "")
    if returns == family.status.replace(" ", ""):
        return family.unsupported
    if returns == "constchar*":
        return '"not supported on a dry card"'
    return "{}"


def measured(function):
    """Looks a solver's scratch size up by its matrix: parameters m, n, batchSize, and dataTypeA of the functions of any type."""
    names = {p.name for p in function.parameters}
    outputs = size_outputs(function)
    if "n" not in names or not outputs:
        raise SystemExit(f"answers.txt: {function.name} is measured, but has no n or no size: {function.signature()}")
    name = re.sub(r"^cusolverDn|_bufferSize$", "", function.name)
    key = f'maxbatch::dry::solver_key("{name}", dataTypeA)' if "dataTypeA" in names else f'"{name}"'
    batch = "batchSize" if "batchSize" in names else "1"
    lines = [f'maxbatch_dry_note_defaulted("{function.name}");',
             f"auto const size = maxbatch::dry::solver_sizes().find({key}, {'m' if 'm' in names else 'n'}, n, {batch});"]
    for output, part in zip(outputs, ("on_card", "on_host")):
        lines.append(f"if ({output} != nullptr) *{output} = static_cast<std::decay_t<decltype(*{output})>>(size.{part});")
    # Sizes are in elements, but those of the functions of any type in bytes.
    unit = {"S": 4, "D": 8, "C": 8, "Z": 16}.get(name[0], 1)
    lines.append(f"maxbatch::dry::expect_scratch(maxbatch::dry::certain(maxbatch::dry::MemorySource::estimate, size.on_card * {unit}));")
    return " ".join(lines)


def body(family, function, answer):
    succeeds = function.returns.replace(" ", "") == family.status.replace(" ", "")
    name = f'"{function.name}"'
    if answer == "unsupported" or not succeeds:
        note = f"maxbatch_dry_note_refused({name});"
        return note if function.returns == "void" else f"{note} return {failing_value(family, function)};"
    if answer == "no-scratch":
        outputs = size_outputs(function)
        if not outputs:
            raise SystemExit(f"answers.txt: {function.name} is no-scratch, but returns no size: {function.signature()}")
        zeros = " ".join(f"if ({o} != nullptr) *{o} = 0;" for o in outputs)
        return f"maxbatch_dry_note_defaulted({name}); {zeros} return {family.success};"
    if answer == "measured":
        return f"{measured(function)} return {family.success};"
    if answer == "zero-result":
        outputs = {p.name: p.type for p in function.parameters if p.name in ("result", "info")}
        if not outputs or any("void" in t.split() for t in outputs.values()):
            raise SystemExit(f"answers.txt: {function.name} is zero-result, but has no such result: {function.signature()}")
        zeros = {"result": "if (maxbatch::dry::results_are_on_host(handle)) *result = {};", "info": "*info = 0;"}
        return f"maxbatch::dry::note_kernel(); {' '.join(zeros[o] for o in outputs)} return {family.success};"
    if answer == "kernel":
        return f"maxbatch::dry::note_kernel(); return {family.success};"
    if answer == "large-kernel":
        names = {p.name for p in function.parameters}
        variant = ", static_cast<std::uint64_t>(2 * transa + transb)" if {"transa", "transb"} <= names else ""
        return f'maxbatch::dry::note_large_kernel({{"{function.name}"{variant}}}); return {family.success};'
    return f"return {family.success};"


PROLOGUE = """\
// Written by src/dry_cuda/generate/entry_points.py from <{header}>; see answers.txt beside it. Do not edit.
#include <{header}>

#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/libraries/calls.hpp"
#include "dry_cuda/libraries/cublas_handle.hpp"
#include "dry_cuda/libraries/measured_sizes.hpp"
#include "dry_cuda/report/memory_sources.hpp"

#include <type_traits>

#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

"""


def generated_source(family, functions, aliases, answers):
    lines = [PROLOGUE.format(header=family.header)]
    # A header may declare a function and only then define a macro of its name, for its second version.
    lines += [f"#undef {name}\n" for name in functions if f"{name}_v2" in functions]
    for function in functions.values():
        answer, _ = answer_for(function.name, answers)
        if answer != "real":
            lines.append(f"MAXBATCH_DRY_DEFAULT {function.signature()} {{ {body(family, function, answer)} }}\n")
    if aliases:
        lines.append("\n// Other names. The per-thread default stream is one more stream: no memory depends on which.\n")
    lines += [f"#undef {name}\n" for name in aliases if not re.search("_pt[sd][sz]$", name)]
    for alias, function in aliases.items():
        arguments = ", ".join(p.name or f"unnamed{i}" for i, p in enumerate(function.parameters))
        named = ", ".join(p.text if p.name else f"{p.text} unnamed{i}" for i, p in enumerate(function.parameters))
        lines.append(f"MAXBATCH_DRY_DEFAULT {function.returns} {alias}({named or 'void'}) "
                     f"{{ return {function.name}({arguments}); }}\n")
    return "".join(lines)


def read_family(family, compiler, include_dirs):
    """(functions, other names of functions), or None when an optional header is missing."""
    if not any(os.path.exists(os.path.join(d, family.header)) for d in include_dirs):
        if family.optional:
            return None
        raise SystemExit(f"<{family.header}> is in none of: {', '.join(include_dirs)}")
    prefix = re.compile(family.prefix)

    def parse(defines=()):
        found = declarations.functions_of(compiler, family.header, include_dirs, defines)
        return {n: f for n, f in found.items() if prefix.match(n)}

    functions, aliases = parse(), {}
    if family.per_thread:
        for name in parse(["CUDA_API_PER_THREAD_DEFAULT_STREAM"]):
            plain = re.sub(r"_(ptsz|ptds)$", "", name)
            if name not in functions and plain in functions:
                aliases[name] = functions[plain]
    if family.first_names:
        for name, first in parse(["__CUDA_API_VERSION_INTERNAL"]).items():
            second = functions.get(f"{name}_v2")
            if name not in functions and second and [p.type for p in first.parameters] == [p.type for p in second.parameters]:
                aliases[name] = second
    return functions, aliases


def write_if_changed(path, text):
    if os.path.exists(path) and open(path, encoding="utf-8").read() == text:
        return
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--include", nargs="+", required=True, metavar="DIR", help="folders with CUDA's public headers")
    parser.add_argument("--compiler", nargs="+", default=["c++"], metavar="WORD", help="the C++ compiler")
    parser.add_argument("--family", nargs="+", default=[f.name for f in FAMILIES], metavar="NAME")
    parser.add_argument("--answers", default=os.path.join(HERE, "answers.txt"), metavar="FILE")
    parser.add_argument("--output", metavar="DIR", help="write generated_<family>.cpp here")
    parser.add_argument("--list", action="store_true", help="print what each entry point answers")
    options = parser.parse_args()
    table = read_answers(options.answers)
    for family in FAMILIES:
        if family.name not in options.family:
            continue
        read = read_family(family, options.compiler, options.include)
        answers = table.get(family.name, [])
        functions, aliases = read if read else ({}, {})
        stale = unused_patterns(functions, answers) if read else []
        if stale:
            print(f"answers.txt: [{family.name}] fits nothing in these headers: {' '.join(stale)}", file=sys.stderr)
        if options.list:
            for name in sorted(functions):
                print(name, family.library, *answer_for(name, answers)[:1])
            for alias in sorted(aliases):
                print(alias, family.library, "forwarded")
        if options.output:
            os.makedirs(options.output, exist_ok=True)
            text = generated_source(family, functions, aliases, answers) if read else f"// <{family.header}> is missing.\n"
            write_if_changed(os.path.join(options.output, f"generated_{family.name}.cpp"), text)


if __name__ == "__main__":
    main()
