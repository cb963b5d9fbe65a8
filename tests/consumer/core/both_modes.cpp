#include "search_both.hpp"

int main() { return largest_by_compiled_core(37) == 37 && largest_by_header_only_core(37) == 37 ? 0 : 1; }
