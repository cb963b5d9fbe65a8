// Loaded ahead of a CUDA program: says to whoever traces it what it calls. See README.md.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say(char const* line) {
  ssize_t const ignored = write(9999, line, strlen(line));
  (void)ignored;
}

// Libraries that Python loads for itself are not in the global scope, and RTLD_NEXT does not see them.
static void* next(char const* name) {
  static char const* const libraries[] = {"libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9"};
  void* found = dlsym(RTLD_NEXT, name);
  for (unsigned i = 0; found == NULL && i < sizeof libraries / sizeof *libraries; ++i) {
    void* const library = dlopen(libraries[i], RTLD_NOLOAD | RTLD_LAZY);
    if (library != NULL) { found = dlsym(library, name); }
  }
  if (found == NULL) {
    fprintf(stderr, "mark_calls: there is no %s\n", name);
    abort();
  }
  return found;
}

// The registered kernels, by the host function that stands for each.
enum { kKernels = 1 << 18, kModules = 4096 };
static struct {
  void const* function;
  char const* name;
  int module;
  int launched;
} kernels[kKernels];
static void** modules[kModules];
static int module_count;
static int module_told[kModules];

static unsigned slot_of(void const* function) {
  unsigned slot = (unsigned)(((uintptr_t)function >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 46) % kKernels;
  while (kernels[slot].function != NULL && kernels[slot].function != function) { slot = (slot + 1) % kKernels; }
  return slot;
}

void** __cudaRegisterFatBinary(void* code) {
  void** (*real)(void*) = next("__cudaRegisterFatBinary");
  void** const handle = real(code);
  if (module_count < kModules) { modules[module_count++] = handle; }
  return handle;
}

void __cudaRegisterFunction(void** handle, char const* host, char* device, char const* name, int threads, void* a, void* b, void* c,
                            void* d, void* e) {
  void (*real)(void**, char const*, char*, char const*, int, void*, void*, void*, void*, void*) = next("__cudaRegisterFunction");
  unsigned const slot = slot_of(host);
  kernels[slot].function = host;
  kernels[slot].name = name;
  for (int i = module_count; i-- > 0;) {
    if (modules[i] == handle) {
      kernels[slot].module = i;
      break;
    }
  }
  real(handle, host, device, name, threads, a, b, c, d, e);
}

// The lower 40 bits of FNV-1a, as the table of asserting kernels has them.
static unsigned long long hash_of(char const* name) {
  unsigned long long value = 0xcbf29ce484222325ULL;
  for (; *name != 0; ++name) { value = (value ^ (unsigned char)*name) * 0x100000001b3ULL; }
  return value & 0xffffffffffULL;
}

static void say_module(int module) {
  static char line[1 << 16];
  if (module_told[module]++) { return; }
  int length = snprintf(line, sizeof line, "module %d", module);
  for (unsigned i = 0; i < kKernels && length < (int)sizeof line - 16; ++i) {
    if (kernels[i].function == NULL || kernels[i].module != module || kernels[i].name == NULL) { continue; }
    length += snprintf(line + length, sizeof line - (unsigned)length, " %010llx", hash_of(kernels[i].name));
  }
  say(line);
}

static int say_first_launch(void const* function) {
  char line[4096];
  unsigned const slot = slot_of(function);
  if (kernels[slot].launched++) { return 0; }
  say_module(kernels[slot].module);
  snprintf(line, sizeof line, "kernel %d %s", kernels[slot].module, kernels[slot].name ? kernels[slot].name : "?");
  say(line);
  return 1;
}

// CUDA 13 launches by handles.
static struct {
  void const* handle;
  void const* function;
} handles[1 << 16];
static unsigned handle_count;

int __cudaGetKernel(void** handle, void const* function) {
  int (*real)(void**, void const*) = next("__cudaGetKernel");
  int const status = real(handle, function);
  if (handle_count < sizeof handles / sizeof *handles) {
    handles[handle_count].handle = *handle;
    handles[handle_count++].function = function;
  }
  return status;
}

static void const* function_of(void const* handle) {
  for (unsigned i = handle_count; i-- > 0;) {
    if (handles[i].handle == handle) { return handles[i].function; }
  }
  return handle;
}

typedef struct {
  unsigned x, y, z;
} Extent;

#define LAUNCH(name, parameters, arguments, kernel)  \
  int name parameters {                              \
    static int(*real) parameters;                    \
    if (real == NULL) { *(void**)&real = next(#name); } \
    int const first = say_first_launch(kernel);      \
    int const status = real arguments;               \
    if (first) { say("end"); }                       \
    return status;                                   \
  }
LAUNCH(__cudaLaunchKernel, (void* kernel, Extent grid, Extent block, void** with, size_t shared, void* stream),
       (kernel, grid, block, with, shared, stream), function_of(kernel))
LAUNCH(cudaLaunchKernel, (void const* kernel, Extent grid, Extent block, void** with, size_t shared, void* stream),
       (kernel, grid, block, with, shared, stream), kernel)
LAUNCH(cudaLaunchKernelExC, (void const* how, void const* kernel, void** with), (how, kernel, with), kernel)

int cudaMalloc(void** pointer, size_t bytes) {
  int (*real)(void**, size_t) = next("cudaMalloc");
  say("cudaMalloc");
  int const status = real(pointer, bytes);
  say("end");
  return status;
}
int cudaFree(void* pointer) {
  int (*real)(void*) = next("cudaFree");
  say("cudaFree");
  int const status = real(pointer);
  say("end");
  return status;
}

// Whatever its parameters are: as many words as any of them has are passed on.
#define WORDS(w) w a, w b, w c, w d, w e, w f, w g, w h, w i, w j, w k, w l, w m, w n, w o, w p, w q, w r, w s, w t, w u, w v
#define MARKED(name)                                                 \
  uintptr_t name(WORDS(uintptr_t)) {                                 \
    static uintptr_t (*real)(WORDS(uintptr_t));                      \
    if (real == NULL) { *(void**)&real = next(#name); }              \
    say("library " #name);                                           \
    uintptr_t const status = real(WORDS());                          \
    say("end");                                                      \
    return status;                                                   \
  }
MARKED(cublasCreate_v2)
MARKED(cublasSgemm_v2)
MARKED(cublasSgemmStridedBatched)
MARKED(cublasGemmEx)
MARKED(cublasGemmStridedBatchedEx)
MARKED(cublasLtMatmul)
MARKED(cudnnCreate)
MARKED(cudnnBackendExecute)
MARKED(cudnnBackendFinalize)
MARKED(cudaHostAlloc)
