/// max_batch_per_card BUDGET…: the largest batch of every built-in model under each budget.
///
/// Cards come with the CUDA device, which this version does not have: the rows are budgets on this machine's CPU, and the
/// heading says so.
#include <maxbatch/maxbatch.hpp>

#include <exception>
#include <iostream>
#include <vector>

int main(int argc, char** argv) try {
  std::vector<maxbatch::Bytes> budgets;
  for (int i = 1; i < argc; ++i) {
    auto const budget = maxbatch::parse_bytes(argv[i]);
    if (!budget) {
      std::cerr << argv[0] << ": '" << argv[i] << "' is not an amount of memory, such as 64MiB\n";
      return 2;
    }
    budgets.push_back(*budget);
  }
  if (budgets.empty()) {
    std::cerr << "usage: " << argv[0] << " BUDGET…, such as 64MiB 128MiB\n";
    return 2;
  }

  auto const models = maxbatch::models::ModelRegistry::built_in();
  std::vector<maxbatch::ReportEntry> rows;
  for (auto const& model : models.all()) {
    for (auto const budget : budgets) {
      maxbatch::ReportEntry row;
      row.subject.model = model.name;
      row.result = maxbatch::MaxBatchFinder(maxbatch::budgeted_cpu_device(budget)).find(model, row.subject.recipe);
      rows.push_back(row);
    }
  }
  std::cout << maxbatch::to_table(rows,
                                  "The largest batch under each budget, on this machine's CPU: no row is a card.");
  return 0;
} catch (std::exception const& error) {
  std::cerr << argv[0] << ": " << error.what() << '\n';
  return 1;
}
