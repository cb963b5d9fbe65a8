#include "argument_values.hpp"
#include "ask_convolutions.hpp"
#include "asserting_kernel.hpp"
#include "command.hpp"
#include "convolution_files.hpp"
#include "dry_cuda/libraries/convolution_table.hpp"
#include "dry_cuda/libraries/convolution_table_text.hpp"
#include "dry_cuda/profiling/card_reading.hpp"
#include "dry_cuda/profiling/convolution_asker.hpp"
#include "usage_error.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

namespace maxbatch::cli {
namespace {

struct ProfileArguments {
  std::vector<std::string> questions;
  std::string output = ".";
  std::string device;
  std::string jobs;
  bool again = false;
  bool answers = false;
};

/// "NVIDIA GeForce RTX 2080 Ti" to "nvidia-geforce-rtx-2080-ti"
std::string file_name_of(std::string const& device_name) {
  std::string name;
  for (auto const letter : device_name) {
    auto const byte = static_cast<unsigned char>(letter);
    if (std::isalnum(byte) != 0) {
      name += static_cast<char>(std::tolower(byte));
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') { name.pop_back(); }
  return name.empty() ? "card" : name;
}

std::vector<std::string> questions_of(ProfileArguments const& arguments) {
  std::vector<std::string> questions;
  std::unordered_set<std::string> seen;
  auto const add = [&](std::vector<std::string> const& more) {
    for (auto const& question : more) {
      if (seen.insert(question).second) { questions.push_back(question); }
    }
  };
  for (auto const& path : arguments.questions) { add(read_questions("--questions", path)); }
  if (arguments.questions.empty()) {
    auto const is_power_of_two = [](std::int64_t batch) { return (batch & (batch - 1)) == 0; };
    for (auto const table : dry::built_in_convolution_tables()) {
      dry::read_convolution_table(table, [&](dry::ConvolutionAtBatch const& asked, auto const&) {
        if (is_power_of_two(asked.batch)) { add({dry::question_text(asked)}); }
      });
    }
  }
  return questions;
}

/// Adds what a table says, if it is of the same card and the same cuDNN.
void add_answers(dry::ConvolutionAnswers& answers, std::string_view text, std::string const& card,
                 std::string const& cudnn) {
  if (dry::convolution_table_header(text, "card") != card || dry::convolution_table_header(text, "cudnn") != cudnn) {
    return;
  }
  dry::read_convolution_table(text, [&](dry::ConvolutionAtBatch const& asked, std::vector<std::int64_t> workspaces) {
    answers[dry::question_text(asked)] = std::move(workspaces);
  });
}

/// What an earlier visit has answered; and what maxbatch brings along for this card, unless questions were given.
dry::ConvolutionAnswers known_answers(ProfileArguments const& arguments, std::filesystem::path const& path,
                                      std::string const& card, std::string const& cudnn) {
  dry::ConvolutionAnswers answers;
  if (arguments.again) { return answers; }
  if (arguments.questions.empty()) {
    for (auto const table : dry::built_in_convolution_tables()) { add_answers(answers, table, card, cudnn); }
  }
  if (std::filesystem::exists(path)) { add_answers(answers, read_whole_file("--output", path), card, cudnn); }
  return answers;
}

std::string table_text(dry::ConvolutionAnswers const& answers, std::string const& card, std::string const& cudnn) {
  return "# Workspaces of convolutions in bytes, up to three plans each, as cuDNN plans them on the card: maxbatch "
         "profile-gpu.\n# card: " +
         card + "\n# cudnn: " + cudnn + '\n' + dry::convolution_table_lines(answers);
}

struct Asked {
  std::size_t answered = 0;
  std::vector<std::string> unanswered;  ///< with cuDNN's reason
};

/// How long it may still take, going by how long it took; nothing before that says much.
std::string time_left(std::chrono::steady_clock::duration passed, std::size_t done, std::size_t left) {
  constexpr std::size_t kEnough = 32;
  if (done < kEnough) { return {}; }
  auto const seconds = std::chrono::duration<double>(passed).count() / static_cast<double>(done);
  auto const whole = static_cast<std::int64_t>(seconds * static_cast<double>(left));
  return whole < 90 ? ", " + std::to_string(whole) + " s left" : ", " + std::to_string((whole + 59) / 60) + " min left";
}

/// Adds the answers, and calls `save` now and then: a visit to a card that is cut short loses little.
Asked ask(std::vector<std::string> const& questions, int device, std::size_t jobs, dry::ConvolutionAnswers& answers,
          std::function<void()> const& save, Surroundings const& surroundings) {
  Asked asked;
  auto const began = std::chrono::steady_clock::now();
  auto saved = began;
  ask_convolutions(questions, device, jobs, [&](ConvolutionAnswer answer) {
    if (answer.workspaces.empty()) {
      asked.unanswered.push_back(answer.question + ": " + answer.reason);
    } else {
      answers[answer.question] = std::move(answer.workspaces);
      ++asked.answered;
    }
    auto const done = asked.answered + asked.unanswered.size();
    if (done % 16 != 0) { return; }
    auto const now = std::chrono::steady_clock::now();
    surroundings.status.show("asking cuDNN: " + std::to_string(done) + " of " + std::to_string(questions.size()) +
                             " convolutions" + time_left(now - began, done, questions.size() - done));
    if (now - saved < std::chrono::seconds(30)) { return; }
    save();
    saved = now;
  });
  surroundings.status.clear();
  return asked;
}

ExitCode run(ProfileArguments const& arguments, Surroundings const& surroundings) {
  auto const device = arguments.device.empty() ? 0 : read_count("--device", arguments.device, 0);
  auto const jobs = arguments.jobs.empty() ? std::size_t{std::max(1U, std::thread::hardware_concurrency())}
                                           : static_cast<std::size_t>(read_count("--jobs", arguments.jobs, 1));
  if (arguments.answers) {
    if (!answer_questions(static_cast<int>(device))) { throw UsageError("--answers: nobody asks"); }
    return ExitCode::answered;
  }
  auto questions = questions_of(arguments);
  std::filesystem::path const folder = arguments.output;
  if (!std::filesystem::is_directory(folder)) { throw UsageError("--output: " + arguments.output + " is no folder"); }
  dry::CardReading reading;
  try {
    reading = dry::read_card(static_cast<int>(device), [device] { return asserting_kernel(static_cast<int>(device)); });
  } catch (std::runtime_error const& error) { throw UsageError(std::string("profile-gpu: ") + error.what()); }
  for (auto const& remark : reading.remarks) { surroundings.log.warn(remark); }
  auto const& name = reading.profile.name;
  auto const profile_path = folder / (file_name_of(name) + ".card.txt");
  replace_file("--output", profile_path, dry::card_reading_text(reading));

  auto const cudnn = dry::ConvolutionAsker().cudnn_version();
  auto const table_path = table_beside(profile_path);
  auto answers = known_answers(arguments, table_path, name, cudnn);
  auto const given = questions.size();
  questions.erase(std::remove_if(questions.begin(), questions.end(),
                                 [&](auto const& question) { return answers.count(question) != 0; }),
                  questions.end());
  auto const save = [&] { replace_file("--output", table_path, table_text(answers, name, cudnn)); };
  auto const asked = ask(questions, static_cast<int>(device), jobs, answers, save, surroundings);
  save();

  for (auto const& line : asked.unanswered) { surroundings.log.warn("no answer: " + line); }
  surroundings.out << name << ": " << profile_path.string() << '\n'
                   << asked.answered << " convolutions asked, " << given - questions.size() << " known before, "
                   << asked.unanswered.size() << " without an answer (cuDNN " << cudnn << "): " << table_path.string()
                   << '\n'
                   << "Use it anywhere: maxbatch dry-run --card-profile " << profile_path.string() << " -- PROGRAM\n";
  return ExitCode::answered;
}

}  // namespace

void add_profile_gpu_command(CLI::App& app, Command& chosen) {
  auto* const command = app.add_subcommand("profile-gpu", "The card in this machine, as a file for dry runs elsewhere");
  auto const arguments = std::make_shared<ProfileArguments>();
  command
      ->add_option(
          "--questions", arguments->questions,
          "convolutions to ask cuDNN about, as dry-run --questions wrote them; may be given again; default "
          "those of maxbatch's own tables at batch sizes 1, 2, 4 and so on, 190,000, of which a processor asks some 35 "
          "in a second")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command->add_option("--output", arguments->output, "the folder for both files; default here")->type_name("DIR");
  command->add_option("--device", arguments->device, "which card; default 0")->type_name("N");
  command->add_option("--jobs", arguments->jobs, "processes that ask; default one for each processor")->type_name("N");
  command->add_flag("--answers", arguments->answers)->group("");  // one of those processes
  command->add_flag(
      "--again", arguments->again,
      "ask once more what an earlier visit, or maxbatch's own table for this card, has answered; without it, "
      "answers are added to");
  command->footer(
      "Writes NAME.card.txt (properties, total memory, what the driver takes) and beside it NAME.convolutions.txt\n"
      "(workspaces that cuDNN plans on this card). With --questions it takes seconds; without, it asks about common\n"
      "models at common sizes: seven minutes on 16 processors, and what is there is written every half minute.\n"
      "Nobody else should use the card meanwhile: what they hold would be taken for the driver's.\n\n"
      "  maxbatch dry-run --card rtx-3090 --questions asked.txt -- python train.py    without the card\n"
      "  maxbatch profile-gpu --questions asked.txt --output cards                    once, on the card\n"
      "  maxbatch dry-run --card-profile cards/NAME.card.txt -- python train.py       anywhere, from then on");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Surroundings const& surroundings) { return run(*arguments, surroundings); };
  });
}

}  // namespace maxbatch::cli
