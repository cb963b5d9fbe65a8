#pragma once

// How a file of a family answers an entry point of CUDA. See README.md.

/// Before the definition of a function that CUDA's public headers declare: exports it under its C name. What is defined
/// so by hand is strong, and wins over the generated default of the same name, which is weak.
#define MAXBATCH_DRY_ENTRY extern "C" __attribute__((visibility("default")))

/// Before a generated default.
#define MAXBATCH_DRY_DEFAULT extern "C" __attribute__((visibility("default"), weak))
