#include "answer_of.hpp"

int main() {
  maxbatch::SearchResult result;
  result.batch_size = 37;
  return answer_of(result) == 37 ? 0 : 1;
}
