#pragma once

namespace maxbatch::detail {

/// Makes this copy of maxbatch the process's one, and keeps its code in memory for good: LibTorch holds pointers to what
/// it was given and has no way to return them.
///
/// A second copy (linked statically into two libraries, or opened twice by dlopen) would count and cap the same memory a
/// second time. Copies may hide their symbols from each other, so the mark is where all of them look: LibTorch's
/// dispatcher, which exists once per process and refuses a second definition of a name. Nothing ever calls the operator.
///
/// Throws: std::logic_error if another copy was first; says where that copy is.  Threads: any.
void claim_process();

}  // namespace maxbatch::detail
