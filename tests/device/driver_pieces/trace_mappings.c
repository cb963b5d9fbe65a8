// Runs a program and writes down, in their order, the lines that mark_calls.so says and where the driver maps memory.
//   trace_mappings FILE PROGRAM ARGUMENTS...
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kMarks = 9999, kThreads = 4096, kMapExternal = 73, kFree = 34, kAllocate = 0xc030462b, kAllocateOlder = 0xc020462b };

static struct {
  pid_t id;
  int inside;
  struct user_regs_struct entered;
} threads[kThreads];
static int thread_count;

static int thread_of(pid_t id) {
  for (int i = 0; i < thread_count; ++i) {
    if (threads[i].id == id) { return i; }
  }
  threads[thread_count].id = id;
  return thread_count++;
}

static int read_memory(pid_t id, unsigned long long from, void* to, size_t bytes) {
  struct iovec const here = {to, bytes};
  struct iovec const there = {(void*)from, bytes};
  return process_vm_readv(id, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

static void write_down(FILE* out, pid_t id, struct user_regs_struct const* call) {
  unsigned long words[4] = {0};
  switch (call->orig_rax) {
    case SYS_mmap:  // what is fixed and shared is host memory for the card
      if ((call->r10 & 0x31) == 0x31) { fprintf(out, "host %llx %llx\n", call->rdi, call->rsi); }
      break;
    case SYS_ioctl:
      if ((unsigned)call->rsi == kAllocate || (unsigned)call->rsi == kAllocateOlder) { fprintf(out, "allocate\n"); }
      if (call->rsi != kMapExternal && call->rsi != kFree) { break; }
      read_memory(id, call->rdx, words, sizeof words);
      fprintf(out, "%s %lx %lx\n", call->rsi == kFree ? "unmap" : "map", words[0], words[1]);
      break;
    default: break;
  }
}

int main(int count, char** arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: trace_mappings FILE PROGRAM ARGUMENTS...\n");
    return 2;
  }
  FILE* const out = fopen(arguments[1], "w");
  if (out == NULL) {
    perror(arguments[1]);
    return 2;
  }
  pid_t const program = fork();
  if (program == 0) {
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    execvp(arguments[2], arguments + 2);
    perror(arguments[2]);
    _exit(127);
  }
  int status = 0;
  int exit_code = 1;
  waitpid(program, &status, 0);
  ptrace(PTRACE_SETOPTIONS, program, 0,
         PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL);
  ptrace(PTRACE_SYSCALL, program, 0, 0);
  for (pid_t id = 0; (id = waitpid(-1, &status, __WALL)) >= 0;) {
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (id == program) { exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }
      continue;
    }
    int const signal = WSTOPSIG(status);
    long pass_on = 0;
    int const thread = thread_of(id);
    if (signal == (SIGTRAP | 0x80)) {
      struct user_regs_struct registers;
      ptrace(PTRACE_GETREGS, id, 0, &registers);
      if (!threads[thread].inside) {
        threads[thread].entered = registers;
        if (registers.orig_rax == SYS_write && (int)registers.rdi == kMarks) {
          static char line[1 << 16];
          size_t const length = registers.rdx < sizeof line ? registers.rdx : sizeof line - 1;
          line[read_memory(id, registers.rsi, line, length) ? length : 0] = 0;
          fprintf(out, "mark %s\n", line);
        }
      } else {
        write_down(out, id, &threads[thread].entered);
      }
      threads[thread].inside = !threads[thread].inside;
    } else if (signal == SIGTRAP && (status >> 16) != 0) {
      if ((status >> 16) == PTRACE_EVENT_EXEC) { threads[thread].inside = 1; }
    } else if (signal != SIGSTOP) {
      pass_on = signal;
    }
    ptrace(PTRACE_SYSCALL, id, 0, pass_on);
  }
  fclose(out);
  return exit_code;
}
