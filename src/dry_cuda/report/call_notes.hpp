#pragma once

/// What the report says about calls that were not answered in earnest. `name` is the entry point's. C linkage for the generated defaults. Never fails, never allocates; any thread.
extern "C" {

/// The call was refused. The first refusal of each name is said on standard error: "not supported on a dry card: NAME".
void maxbatch_dry_note_refused(char const* name);

/// The call was answered "success" by a generated default, without doing or checking anything.
void maxbatch_dry_note_defaulted(char const* name);
}

namespace maxbatch::dry {

/// Somebody looked an entry point up by name that nobody has. Looking is no call, so this is only in the report as JSON.
void note_missing_entry_point(char const* name);

/// Notes the refusal and gives back the caller's own error code for it:
///   return refuse("cudaIpcOpenMemHandle", cudaErrorNotSupported);
template <typename Status>
Status refuse(char const* name, Status status) {
  maxbatch_dry_note_refused(name);
  return status;
}

}  // namespace maxbatch::dry
