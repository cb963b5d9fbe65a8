#include "cli/program_file.hpp"

#include "cli/usage_error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

namespace maxbatch::test {
namespace {

using testing::HasSubstr;

/// A file of these bytes, executable unless said otherwise.
class File {
 public:
  explicit File(std::string const& bytes, mode_t mode = 0755, std::string const& ending = "")
      : path_(testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() + ending) {
    std::ofstream(path_, std::ios::binary) << bytes;
    chmod(path_.c_str(), mode);
  }
  ~File() { std::filesystem::remove(path_); }
  File(File const&) = delete;
  File& operator=(File const&) = delete;
  [[nodiscard]] std::string const& path() const { return path_; }

 private:
  std::string path_;
};

std::string complaint(std::string const& program) {
  try {
    cli::check_program_file(program);
  } catch (cli::UsageError const& error) {
    std::string text = error.what();
    EXPECT_THAT(text, testing::StartsWith("'" + program + "' "));
    EXPECT_EQ(text.find('\n'), std::string::npos) << "one sentence";
    return text;
  }
  return "none";
}

/// As much of a 64-bit program as is looked at; `loader` empty: linked without one.
std::string machine_code(std::string const& loader, Elf64_Half machine = EM_X86_64) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = machine;
  header.e_phoff = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = loader.empty() ? 0 : 1;
  Elf64_Phdr part{};
  part.p_type = PT_INTERP;
  part.p_offset = sizeof(header) + sizeof(part);
  part.p_filesz = loader.size() + 1;
  std::string bytes(reinterpret_cast<char const*>(&header), sizeof(header));
  if (!loader.empty()) { bytes += std::string(reinterpret_cast<char const*>(&part), sizeof(part)) + loader + '\0'; }
  return bytes;
}

TEST(ProgramFile, WhatRunsHereIsNotComplainedAbout) {
  EXPECT_EQ(complaint("sh"), "none");
  EXPECT_EQ(complaint("/proc/self/exe"), "none");
  EXPECT_EQ(complaint(File("#!/bin/sh\n").path()), "none");
  EXPECT_EQ(complaint(File("#!/usr/bin/env sh\n").path()), "none");
  EXPECT_EQ(complaint(File("#! /bin/sh -e\n").path()), "none");
  EXPECT_EQ(complaint(File("echo without a first line\n").path()), "none") << "the shell takes it";
  EXPECT_EQ(complaint(File(machine_code("/proc/self/exe")).path()), "none") << "a loader that is there";
}

TEST(ProgramFile, NotThere) {
  EXPECT_THAT(complaint("/no/such/program"), HasSubstr("is not there"));
  EXPECT_THAT(complaint("no-such-program-anywhere"), HasSubstr("is in no folder of PATH"));
  EXPECT_THAT(complaint("/tmp"), HasSubstr("is a folder"));
}

TEST(ProgramFile, NotExecutable) {
  if (geteuid() == 0) { EXPECT_NE(access(File("", 0644).path().c_str(), X_OK), 0) << "nor for root"; }
  EXPECT_THAT(complaint(File("print()\n", 0644, ".py").path()), HasSubstr("or start it as: -- python "));
  EXPECT_THAT(complaint(File("\n", 0644, ".sh").path()), HasSubstr("or start it as: -- sh "));
  EXPECT_THAT(complaint(File("\n", 0644).path()), HasSubstr("is not executable; make it so (chmod +x)"));
}

TEST(ProgramFile, AScriptWithoutItsInterpreter) {
  EXPECT_THAT(complaint(File("#!/no/such/python\n").path()),
              HasSubstr("is a script for /no/such/python, which is not there"));
  EXPECT_THAT(complaint(File("#!/usr/bin/env no-such-python\n").path()), HasSubstr("is a script for no-such-python"));
  File const itself("");
  std::ofstream(itself.path()) << "#!" << itself.path() << '\n';
  EXPECT_EQ(complaint(itself.path()), "none") << "an endless chain is the system's to refuse";
}

TEST(ProgramFile, MachineCodeThatCudaCouldNotBeReplacedIn) {
  EXPECT_THAT(complaint(File(machine_code("")).path()), HasSubstr("is linked statically, without the dynamic loader"));
  EXPECT_THAT(complaint(File(machine_code("/no/such/loader.so")).path()),
              HasSubstr("/no/such/loader.so, which is not there"));
  EXPECT_THAT(complaint(File(machine_code("/proc/self/exe", EM_AARCH64)).path()),
              HasSubstr("another kind of processor"));
  auto small = machine_code("/proc/self/exe");
  small[EI_CLASS] = ELFCLASS32;
  EXPECT_THAT(complaint(File(small).path()), HasSubstr("is a 32-bit program"));
  EXPECT_THAT(complaint(File(small.substr(0, sizeof(Elf32_Ehdr))).path()), HasSubstr("is a 32-bit program"));
  for (std::size_t length = 4; length < machine_code("/x").size(); ++length) {  // a file that was cut off harms nobody
    complaint(File(machine_code("/x").substr(0, length)).path());
  }
}

TEST(ProgramFile, RightsOfItsOwn) {
  if (geteuid() != 0) { GTEST_SKIP() << "only root can give a file to somebody else"; }
  File const program("#!/bin/sh\n");
  ASSERT_EQ(chown(program.path().c_str(), 1, 1), 0);
  ASSERT_EQ(chmod(program.path().c_str(), 04755), 0);
  EXPECT_THAT(complaint(program.path()), HasSubstr("runs with rights of its own (setuid)"));
  ASSERT_EQ(chmod(program.path().c_str(), 02755), 0);
  EXPECT_THAT(complaint(program.path()), HasSubstr("runs with rights of its own (setgid)"));
}

}  // namespace
}  // namespace maxbatch::test
