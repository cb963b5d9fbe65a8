#include "program_trial.hpp"

#include "dry_run_report.hpp"

#include <new>
#include <stdexcept>
#include <utility>

#include <sys/mman.h>

namespace maxbatch::cli {
namespace {

constexpr char const* kCardWatch = "libmaxbatch_card_watch.so";
using Clock = std::chrono::steady_clock;

std::shared_ptr<dry::ReportPage> map_page(process::NamelessFile const& file) {
  auto* const memory = mmap(nullptr, sizeof(dry::ReportPage), PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0);
  if (memory == MAP_FAILED) { throw std::runtime_error("no memory for a trial's report"); }
  return {new (memory) dry::ReportPage, [](dry::ReportPage* page) { munmap(page, sizeof(dry::ReportPage)); }};
}

process::EnvironmentChanges world_of_this_machine(ProgramTrialOptions const& options) {
  process::EnvironmentChanges changes = {
      {"LD_PRELOAD", process::preload_of(process::find_preloaded_library(kCardWatch))}};
  if (!options.visible_device.empty()) { changes.emplace_back("CUDA_VISIBLE_DEVICES", options.visible_device); }
  return changes;
}

}  // namespace

ProgramTrial::ProgramTrial(std::vector<std::string> const& command, ProgramTrialOptions const& options, bool record)
    : options_(options),
      command_(command.front()),
      page_file_("maxbatch-report", std::string(sizeof(dry::ReportPage), '\0')),
      page_(map_page(page_file_)),
      began_(Clock::now()) {
  if (record) { events_.emplace(); }
  if (options.dry_world) { world_.emplace(*options.dry_world); }
  auto environment = world_ ? world_->environment() : world_of_this_machine(options);
  environment.insert(environment.end(),
                     {{"MAXBATCH_DRY_REPORT_PAGE", page_file_.path()},
                      {"MAXBATCH_RECORD_EVENTS", events_ ? events_->path() : ""},
                      {"MAXBATCH_WATCH_STEPS", std::to_string(options.steps)},
                      {"MAXBATCH_ALLOCATOR_BUDGET", options.budget ? std::to_string(options.budget->count) : ""},
                      {process::ProcessMark::kVariable, mark_.value()},
                      {"TMPDIR", options.temporary_folder}});
  child_ = std::make_unique<process::ChildProcess>(command, environment, process::ChildProcess::Talk::none);
}

ProgramTrial::~ProgramTrial() {
  child_->kill();
  mark_.kill_all();
}

std::vector<std::string> ProgramTrial::remarks() const { return remarks_of(*page_); }

ProgramProgress ProgramTrial::progress() const { return progress_of(*page_, options_.budget); }

bool ProgramTrial::is_over_within(std::chrono::duration<double> patience) {
  if (outcome_) { return true; }
  if (auto const end = child_->end_within(patience)) {
    conclude(ProgramEnd::Kind::by_itself, *end);
  } else if (!options_.to_its_end && progress().has_settled) {
    conclude(ProgramEnd::Kind::settled, {});
  } else if (Clock::now() - began_ > options_.timeout) {
    conclude(ProgramEnd::Kind::timed_out, {});
  }
  return outcome_.has_value();
}

void ProgramTrial::conclude(ProgramEnd::Kind kind, process::ProcessEnd end) {
  child_->kill();
  mark_.kill_all();
  ProgramEnd how;
  how.kind = kind;
  how.process = end;
  how.seconds = options_.timeout.count();
  how.last_words = child_->last_words();
  how.command = command_;
  how.wanted_steps = options_.steps;
  outcome_ = judge_program(progress(), how);
  if (outcome_->verdict == Verdict::failed) {
    for (auto const& remark : remarks()) { outcome_->reason = remark + "; " + outcome_->reason; }
  }
}

}  // namespace maxbatch::cli
