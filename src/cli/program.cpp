#include "argument_values.hpp"
#include "command.hpp"
#include "report/text_table.hpp"
#include "run_search.hpp"
#include "usage_error.hpp"
#include <maxbatch/cli/program.hpp>
#include <maxbatch/impl/nearest_name.hpp>
#include <maxbatch/models/script_module.hpp>
#include <maxbatch/report/version.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/child_process_runner.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch {
namespace cli {
namespace {

constexpr char const* kFooter =
    "Answers go to standard output; progress, log and complaints to standard error. The first Ctrl-C ends a search "
    "after\n"
    "its current trial and prints the best so far, the second one ends the program.\n\n"
    "Examples:\n"
    "  maxbatch find --model small_cnn --budget 64MiB   the largest batch, and what stops the next one\n"
    "  maxbatch find --model small_cnn --budget 64MiB --format json | jq .largest_batch_size\n"
    "  maxbatch table                                   every model under a row of budgets\n"
    "  maxbatch bench --model swin_t --device cuda:0    images a second, at sizes where it matters\n"
    "  maxbatch cards 2080                              the cards that are known, with the source of each figure\n"
    "  maxbatch replay snapshot.pickle --card rtx-4090  whether a recorded program would have fitted there\n"
    "  maxbatch find --help                             all options of a command\n\n"
    "Exit codes:\n"
    "  0  an answer with its proof\n"
    "  1  the step failed for another reason than memory; its text is printed\n"
    "  2  bad usage: nothing was run\n"
    "  3  nothing fits\n"
    "  4  stopped early by a budget of time or trials, Ctrl-C or a lost device; the best so far is printed";

/// CLI11 leaves it to the terminal to break lines, in the middle of words.
class WrappingFormatter : public CLI::Formatter {
 public:
  std::string make_option_desc(CLI::Option const* option) const override {
    return wrapped(CLI::Formatter::make_option_desc(option));
  }

 private:
  static std::string wrapped(std::string const& text) {
    auto lines = report::wrap(text, /*width=*/68);
    lines.pop_back();  // the last newline: CLI11 writes it
    return lines;
  }
};

struct CommonArguments {
  LogLevel log_level = LogLevel::warn;
};

void add_common_options(CLI::App& app, CommonArguments& arguments) {
  app.set_version_flag("--version",
                       "maxbatch " + std::string(version()) + " (LibTorch " + std::string(libtorch_version()) + ")");
  app.add_option_function<std::string>(
         "--log-level",
         [&](std::string const& text) {
           arguments.log_level = *parse_log_level(read_name("--log-level", text, log_level_names()));
         },
         "trace, debug, info, warn, error or off, on standard error; default warn")
      ->type_name("LEVEL");
  app.add_flag_callback(
      "-v,--verbose", [&] { arguments.log_level = LogLevel::debug; }, "the same as --log-level debug");
}

/// All names that may stand where `app` or its chosen subcommand did not understand something.
std::vector<std::string> known_names(CLI::App const& app) {
  std::vector<std::string> names;
  for (auto const* const option : app.get_options()) {
    for (auto const& name : option->get_lnames()) { names.push_back("--" + name); }
  }
  for (auto const* const command : app.get_subcommands([](CLI::App const*) { return true; })) {
    names.push_back(command->get_name());
  }
  for (auto const* const chosen : app.get_subcommands()) {
    for (auto const& name : known_names(*chosen)) { names.push_back(name); }
  }
  return names;
}

std::string complaint_about_extras(CLI::App const& app) {
  auto const extras = app.remaining(/*recurse=*/true);
  auto const extra = extras.empty() ? std::string() : extras.front();
  auto const name = extra.substr(0, extra.find('='));
  auto text = "'" + extra + "' is not understood";
  if (auto const nearest = detail::nearest_name(name, known_names(app))) {
    text += "; did you mean '" + *nearest + "'?";
  }
  return text;
}

std::string complaint(CLI::App const& app, CLI::ParseError const& error) {
  if (dynamic_cast<CLI::ExtrasError const*>(&error) != nullptr) { return complaint_about_extras(app); }
  std::string text = error.what();
  if (dynamic_cast<CLI::ArgumentMismatch const*>(&error) != nullptr) {
    return text.substr(0, text.find(':')) + " needs a value";
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == '.')) { text.pop_back(); }
  return text;
}

int say_bad_usage(std::ostream& err, std::string const& text) {
  err << "maxbatch: " << text << (text.empty() || text.back() == '?' ? "" : ".") << " See maxbatch --help.\n";
  return static_cast<int>(ExitCode::bad_usage);
}

/// Takes somebody's program off the command line, which CLI11 would read, too: it makes several arguments of `[1,2]`.
std::vector<std::string> take_program(int& argc, char const* const* argv) {
  auto const* const end = argv + argc;
  auto const* const dashes = std::find(argv, end, std::string_view("--"));
  auto const is_command = [](std::string_view word) { return word == "dry-run" || word == "find"; };
  if (dashes == end || std::find_if(argv, dashes, is_command) == dashes) { return {}; }
  argc = static_cast<int>(dashes - argv);
  return {dashes + 1, end};
}

/// The value of --vary is an option itself, of somebody else's: `--vary --batch-size` becomes `--vary=--batch-size`.
std::vector<std::string> with_vary_joined(int argc, char const* const* argv) {
  std::vector<std::string> words;
  for (int i = 0; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--vary" && i + 1 < argc) {
      words.push_back(std::string("--vary=") + argv[++i]);
    } else {
      words.emplace_back(argv[i]);
    }
  }
  return words;
}

std::vector<char const*> pointers_to(std::vector<std::string> const& words) {
  std::vector<char const*> pointers;
  for (auto const& word : words) { pointers.push_back(word.c_str()); }
  return pointers;
}

int run(int argc, char const* const* argv, models::ModelRegistry const& models, std::ostream& out, std::ostream& err,
        StatusStream::Kind kind) {
  answer_if_child(models.all(), maxbatch::models::script_model_named);
  auto const program = take_program(argc, argv);
  auto const words = with_vary_joined(argc, argv);
  auto const joined_argv = pointers_to(words);
  CLI::App app("The largest batch that a training step can run under a memory budget, with its proof.", "maxbatch");
  app.footer(kFooter);
  auto const formatter = std::make_shared<WrappingFormatter>();
  formatter->column_width(30);
  app.formatter(formatter);
  app.fallthrough();
  CommonArguments common;
  add_common_options(app, common);
  Command command;
  add_find_command(app, command);
  add_find_image_command(app, command);
  add_table_command(app, command);
  add_bench_command(app, command);
  add_models_command(app, command);
  add_predict_command(app, command);
  add_cards_command(app, command);
  add_replay_command(app, command);
  add_trace_command(app, command);
  add_compare_traces_command(app, command);
#if defined(MAXBATCH_HAS_DRY_RUN)
  add_dry_run_command(app, command);
#endif
#if defined(MAXBATCH_HAS_PROFILE_GPU)
  add_profile_gpu_command(app, command);
#endif
  app.require_subcommand(0, 1);

  try {
    app.parse(static_cast<int>(joined_argv.size()), joined_argv.data());
  } catch (CLI::Success const& help_or_version) {
    app.exit(help_or_version, out, err);
    return static_cast<int>(ExitCode::answered);
  } catch (CLI::ParseError const& error) {
    return say_bad_usage(err, complaint(app, error));
  } catch (UsageError const& error) { return say_bad_usage(err, error.what()); }
  if (!command) { return say_bad_usage(err, "give a command: find, table, bench, models, cards, replay or trace"); }

  StatusStream status(err, kind);
  Log log(common.log_level, [&status](std::string_view line) { status.write_line(line); });
  try {
    auto const code = command(Surroundings{models, out, status, log, program});
    out.flush();
    return static_cast<int>(code);
  } catch (UsageError const& error) { return say_bad_usage(err, error.what()); } catch (InvalidArgument const& error) {
    return say_bad_usage(err, error.what());
  } catch (std::exception const& error) {
    err << "maxbatch: the step failed, and not for memory: " << first_line_of(error) << '\n';
    return static_cast<int>(ExitCode::step_failed);
  }
}

}  // namespace
}  // namespace cli

int run_program(int argc, char const* const* argv, models::ModelRegistry const& models) {
  return cli::run(argc, argv, models, std::cout, std::cerr, cli::StatusStream::kind_of_standard_error());
}

int run_program(int argc, char const* const* argv, models::ModelRegistry const& models, std::ostream& out,
                std::ostream& err) {
  return cli::run(argc, argv, models, out, err, cli::StatusStream::Kind::plain);
}

}  // namespace maxbatch
