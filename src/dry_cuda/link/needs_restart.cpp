extern "C" int const maxbatch_dry_cuda_restart;

/// A program's link line asks for this: a reference from an object of its own, so that the library stays needed.
extern "C" int const* const maxbatch_needs_dry_cuda_restart;
int const* const maxbatch_needs_dry_cuda_restart = &maxbatch_dry_cuda_restart;
