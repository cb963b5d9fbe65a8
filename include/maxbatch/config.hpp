#pragma once

/// Two build modes of the core (`search/`, `simulation/`), one set of headers.
///
/// Compiled (`maxbatch::core` defines MAXBATCH_COMPILED_LIB for whoever links it) or header-only
/// (`maxbatch::core_header_only`). The inline namespace differs, so one binary may hold both modes and passing a type
/// from one to the other fails at link time instead of at run time.

#if defined(MAXBATCH_COMPILED_LIB)
#define MAXBATCH_INLINE
#define MAXBATCH_ABI_NAMESPACE v0_compiled
#else
#define MAXBATCH_INLINE inline
#define MAXBATCH_ABI_NAMESPACE v0_header_only
#endif
