#include <maxbatch/cli/program.hpp>

int main(int argc, char** argv) { return maxbatch::run_program(argc, argv); }
