/* maxbatch for other languages: the search of MaxBatchFinder with steps that are called back. Plain C, one shared library
 * (maxbatch_c) over maxbatch::maxbatch; questions and answers are JSON. The Python package is written over it. */
#ifndef MAXBATCH_C_API_H
#define MAXBATCH_C_API_H

#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define MAXBATCH_C __attribute__((visibility("default")))

/* Where a callback says why it failed. Valid during the callback. */
typedef struct maxbatch_failure maxbatch_failure;

enum maxbatch_failure_kind {
  MAXBATCH_OUT_OF_MEMORY = 1, /* the exception of LibTorch's allocators, by its type */
  MAXBATCH_OTHER = 2
};

/* For a callback that returns 1. `text` is copied: "ValueError: shapes differ". */
MAXBATCH_C void maxbatch_fail(maxbatch_failure* failure, int kind, char const* text);

/* Each is called on the thread that searches, with `user` as it was given, and returns 0, or 1 after maxbatch_fail. */
typedef struct maxbatch_callbacks {
  void* user;
  /* One step at this batch size; `step_index` is 0 in the first step of a trial. The device is synchronised by us. */
  int (*step)(void* user, int64_t batch_size, int64_t step_index, maxbatch_failure* failure);
  /* What has to be put back, as StateGuard (training/state_guard.hpp) promises it. All three null: nothing. */
  int (*save)(void* user, maxbatch_failure* failure);
  int (*restore_structure)(void* user, maxbatch_failure* failure);
  int (*restore_values)(void* user, maxbatch_failure* failure);
  /* A trial has ended: {"batch_size", "purpose", "outcome", "seconds", ...} as in reports. May be null. */
  void (*trial_finished)(void* user, char const* trial_json);
  /* Asked before each trial; 1 ends the search with the best so far. May be null. */
  int (*must_stop)(void* user);
} maxbatch_callbacks;

/* How a search ended. */
enum maxbatch_status {
  MAXBATCH_ANSWERED = 0,         /* *answer: the result, as `maxbatch find --format json` prints it */
  MAXBATCH_INVALID_ARGUMENT = 1, /* *answer: one sentence; nothing was run */
  MAXBATCH_STEP_FAILED = 2       /* *answer: the text of what the step raised at the smallest size, not for memory */
};

/* `question`: {"device": "cuda:0" | "cpu", "budget_bytes", "headroom_bytes", "steps", "minimum", "maximum", "multiple_of",
 * "divisor_of", "enough", "probe_above", "max_trials", "max_seconds", "name"}; each may be left out or null.
 * *answer is to be given back with maxbatch_free.
 * Throws nothing. Threads: one search per device at a time. Synchronises: after each step. */
MAXBATCH_C int maxbatch_find(char const* question, maxbatch_callbacks const* callbacks, char** answer);

MAXBATCH_C void maxbatch_free(char* answer);

/* "0.1.0", and of the LibTorch that this was compiled with: "2.11.0". */
MAXBATCH_C char const* maxbatch_version(void);
MAXBATCH_C char const* maxbatch_libtorch_version(void);

#if defined(__cplusplus)
}
#endif

#endif
