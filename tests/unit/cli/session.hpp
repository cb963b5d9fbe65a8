#pragma once

#include <maxbatch/cli/program.hpp>

#include <sstream>
#include <string>
#include <vector>

namespace maxbatch::test {

struct Session {
  int code = 0;
  std::string out;
  std::string err;
};

/// The program in this process, over these models.
inline Session run(std::vector<std::string> const& arguments, models::ModelRegistry const& models = {}) {
  std::vector<char const*> argv = {"maxbatch"};
  for (auto const& argument : arguments) { argv.push_back(argument.c_str()); }
  std::ostringstream out;
  std::ostringstream err;
  Session session;
  session.code = run_program(static_cast<int>(argv.size()), argv.data(), models, out, err);
  session.out = out.str();
  session.err = err.str();
  return session;
}

}  // namespace maxbatch::test
