// Asks cuSPARSE on a card how much scratch memory products of two sparse matrices and triangular solvers want; the answers stand in
// sparse_products.txt beside this file. Build and run, with CUDA's toolkit or the wheels' headers and libraries:
//
//   nvcc -std=c++17 -O1 -o sparse_products sparse_products.cpp -lcusparse && ./sparse_products > sparse_products.txt
//
// A product is asked for as LibTorch asks (SparseMatMul.cu, SparseBlasImpl.cpp): CUSPARSE_SPGEMM_DEFAULT, workEstimation without
// and with its buffer, compute without and with its buffer, then the size of the result.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <cusparse.h>

namespace {

void check(cudaError_t status, char const* what) {
  if (status == cudaSuccess) { return; }
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

/// Memory of the card, freed with it.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) {
    if (bytes > 0) { check(cudaMalloc(&memory_, bytes), "cudaMalloc"); }
  }
  ~DeviceMemory() { cudaFree(memory_); }
  DeviceMemory(DeviceMemory const&) = delete;
  DeviceMemory& operator=(DeviceMemory const&) = delete;
  [[nodiscard]] void* get() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::int64_t> begins{0};
  std::vector<std::int64_t> indices;

  void add_row(std::vector<std::int64_t> const& columns_of_row) {
    indices.insert(indices.end(), columns_of_row.begin(), columns_of_row.end());
    begins.push_back(static_cast<std::int64_t>(indices.size()));
  }
};

std::vector<std::int64_t> drawn(std::int64_t columns, std::int64_t count, std::mt19937_64& random) {
  std::set<std::int64_t> chosen;
  while (static_cast<std::int64_t>(chosen.size()) < std::min(count, columns)) {
    chosen.insert(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(columns)));
  }
  return {chosen.begin(), chosen.end()};
}

/// "random": every row has `per_row` elements at random places. "band": side by side, from the diagonal on, so that the products
/// fall together. "skewed": of the same count, half in a twentieth of the rows. "first": all in the first rows, as many as fit.
Matrix matrix(std::string const& kind, std::int64_t rows, std::int64_t columns, std::int64_t per_row) {
  std::mt19937_64 random(17);
  Matrix result;
  result.rows = rows;
  result.columns = columns;
  std::int64_t const heavy = std::max<std::int64_t>(1, rows / 20);
  std::int64_t left = rows * std::min(per_row, columns);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<std::int64_t> places;
    if (kind == "random") {
      places = drawn(columns, per_row, random);
    } else if (kind == "band") {
      for (std::int64_t i = 0; i < std::min(per_row, columns); ++i) { places.push_back((row + i) % columns); }
      std::sort(places.begin(), places.end());
    } else if (kind == "skewed") {
      places = drawn(columns, row < heavy ? per_row * 10 : std::max<std::int64_t>(1, per_row / 2), random);
    } else {
      places = drawn(columns, std::min(columns, left), random);
      left -= static_cast<std::int64_t>(places.size());
    }
    result.add_row(places);
  }
  return result;
}

struct Type {
  char const* name;
  cudaDataType code;
  std::size_t bytes;
  std::uint64_t one[2];  // its bits
};
constexpr Type kTypes[] = {{"half", CUDA_R_16F, 2, {0x3C00}},
                           {"bfloat16", CUDA_R_16BF, 2, {0x3F80}},
                           {"float", CUDA_R_32F, 4, {0x3F800000}},
                           {"double", CUDA_R_64F, 8, {0x3FF0000000000000}},
                           {"complex-float", CUDA_C_32F, 8, {0x3F800000}},
                           {"complex-double", CUDA_C_64F, 16, {0x3FF0000000000000}}};
constexpr Type const& kFloat = kTypes[2];

/// A matrix on the card and its descriptor.
class OnCard {
 public:
  OnCard(Matrix const& matrix, Type const& type, cusparseIndexType_t index)
      : begins_(bytes(matrix.begins.size(), index)),
        indices_(bytes(matrix.indices.size(), index)),
        values_(matrix.indices.size() * type.bytes) {
    copy(begins_, matrix.begins, index);
    copy(indices_, matrix.indices, index);
    check(cudaMemset(values_.get(), 0, matrix.indices.size() * type.bytes), "cudaMemset");
    cusparseCreateCsr(&descriptor_, matrix.rows, matrix.columns, static_cast<std::int64_t>(matrix.indices.size()),
                      begins_.get(), indices_.get(), values_.get(), index, index, CUSPARSE_INDEX_BASE_ZERO, type.code);
  }
  ~OnCard() { cusparseDestroySpMat(descriptor_); }
  OnCard(OnCard const&) = delete;
  OnCard& operator=(OnCard const&) = delete;
  [[nodiscard]] cusparseSpMatDescr_t get() const { return descriptor_; }

 private:
  static std::size_t bytes(std::size_t count, cusparseIndexType_t index) {
    return count * (index == CUSPARSE_INDEX_32I ? 4 : 8);
  }
  static void copy(DeviceMemory const& to, std::vector<std::int64_t> const& numbers, cusparseIndexType_t index) {
    if (numbers.empty()) { return; }
    std::vector<std::int32_t> const narrow(numbers.begin(), numbers.end());
    void const* const from = index == CUSPARSE_INDEX_32I ? static_cast<void const*>(narrow.data()) : numbers.data();
    check(cudaMemcpy(to.get(), from, bytes(numbers.size(), index), cudaMemcpyHostToDevice), "cudaMemcpy");
  }

  DeviceMemory begins_;
  DeviceMemory indices_;
  DeviceMemory values_;
  cusparseSpMatDescr_t descriptor_ = nullptr;
};

/// How many products of two elements the product of the matrices has.
std::int64_t products_of(Matrix const& a, Matrix const& b) {
  std::int64_t products = 0;
  for (auto const column : a.indices) { products += b.begins[column + 1] - b.begins[column]; }
  return products;
}

std::int64_t longest_row(Matrix const& matrix) {
  std::int64_t longest = 0;
  for (std::size_t i = 0; i + 1 < matrix.begins.size(); ++i) {
    longest = std::max(longest, matrix.begins[i + 1] - matrix.begins[i]);
  }
  return longest;
}

void product(cusparseHandle_t handle, char const* kinds, Matrix const& a, Matrix const& b, Type const& type,
             cusparseIndexType_t index) {
  constexpr std::int64_t kMostProducts = 40'000'000;
  auto const products = products_of(a, b);
  if (products > kMostProducts) { return; }
  OnCard const left(a, type, index);
  OnCard const right(b, type, index);
  DeviceMemory const begins((static_cast<std::size_t>(a.rows) + 1) * 8);
  cusparseSpMatDescr_t out = nullptr;
  cusparseCreateCsr(&out, a.rows, b.columns, 0, begins.get(), nullptr, nullptr, index, index, CUSPARSE_INDEX_BASE_ZERO,
                    type.code);
  cusparseSpGEMMDescr_t work = nullptr;
  cusparseSpGEMM_createDescr(&work);
  std::uint64_t const zero[2] = {};
  constexpr auto kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;
  constexpr auto kAlgorithm = CUSPARSE_SPGEMM_DEFAULT;
  std::size_t first = 0;
  std::size_t second = 0;
  auto const estimate = [&](void* buffer) {
    return cusparseSpGEMM_workEstimation(handle, kAsIs, kAsIs, type.one, left.get(), right.get(), zero, out, type.code,
                                         kAlgorithm, work, &first, buffer);
  };
  auto const compute = [&](void* buffer) {
    return cusparseSpGEMM_compute(handle, kAsIs, kAsIs, type.one, left.get(), right.get(), zero, out, type.code,
                                  kAlgorithm, work, &second, buffer);
  };
  auto status = estimate(nullptr);
  DeviceMemory const first_buffer(first);
  if (status == CUSPARSE_STATUS_SUCCESS) { status = estimate(first_buffer.get()); }
  if (status == CUSPARSE_STATUS_SUCCESS) { status = compute(nullptr); }
  auto const asked = second;
  DeviceMemory const second_buffer(second);
  if (status == CUSPARSE_STATUS_SUCCESS) { status = compute(second_buffer.get()); }
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t nonzeros = 0;
  if (status == CUSPARSE_STATUS_SUCCESS) { status = cusparseSpMatGetSize(out, &rows, &columns, &nonzeros); }
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::printf("SpGEMM %s %s %d %lld %lld %lld %zu %zu %lld %lld %lld %lld : ", kinds, type.name,
              index == CUSPARSE_INDEX_32I ? 32 : 64, static_cast<long long>(a.rows), static_cast<long long>(a.columns),
              static_cast<long long>(b.columns), a.indices.size(), b.indices.size(),
              static_cast<long long>(longest_row(a)), static_cast<long long>(longest_row(b)),
              static_cast<long long>(products), static_cast<long long>(nonzeros));
  if (status == CUSPARSE_STATUS_SUCCESS) {
    std::printf("%zu %zu %zu\n", first, asked, second);
  } else {
    std::printf("%d\n", -static_cast<int>(status));
  }
  cusparseSpGEMM_destroyDescr(work);
  cusparseDestroySpMat(out);
}

void products(cusparseHandle_t handle) {
  std::printf(
      "# SpGEMM: patterns of A and B, type, bits of an index; rows of A, columns of A, columns of B, elements of A and "
      "B, their longest "
      "rows, products of two elements, elements of the result : bytes that workEstimation wants, that compute wants, "
      "and what compute "
      "says when it is done; or -status\n");
  auto const both = [&](char const* kinds, std::string const& of_a, std::string const& of_b, std::int64_t m,
                        std::int64_t k, std::int64_t n, std::int64_t in_a, std::int64_t in_b, Type const& type = kFloat,
                        cusparseIndexType_t index = CUSPARSE_INDEX_32I) {
    product(handle, kinds, matrix(of_a, m, k, in_a), matrix(of_b, k, n, in_b), type, index);
  };
  std::int64_t const per_row[] = {1, 2, 3, 5, 10, 32, 100};
  for (std::int64_t const size : {1, 2, 10, 31, 32, 33, 100, 256, 500, 1000, 1024, 2000, 5000, 10000, 30000, 100000}) {
    for (auto const count : per_row) {
      if (count > size) { continue; }
      both("random-random", "random", "random", size, size, size, count, count);
      if (size <= 10000 && (count == 3 || count == 10 || count == 32)) {
        both("band-band", "band", "band", size, size, size, count, count);
        both("skewed-skewed", "skewed", "skewed", size, size, size, count, count);
        both("first-random", "first", "random", size, size, size, count, count);
        both("random-first", "random", "first", size, size, size, count, count);
      }
    }
  }
  for (auto const in_a : per_row) {  // A and B of different fullness
    for (auto const in_b : per_row) {
      if (in_a != in_b) { both("random-random", "random", "random", 1000, 1000, 1000, in_a, in_b); }
    }
  }
  std::int64_t const sides[] = {10, 100, 1000, 10000};
  for (auto const m : sides) {  // and of three different sides
    for (auto const k : sides) {
      for (auto const n : sides) { both("random-random", "random", "random", m, k, n, 4, 6); }
    }
  }
  for (std::int64_t const size :
       {505,   512,   513,   600,   640,   700,   750,   767,    768,    769,    800,     900,    40000,
        50000, 60000, 65535, 65536, 70000, 80000, 90000, 131072, 200000, 500000, 1000000, 2000000}) {
    both("random-random", "random", "random", size, size, size, 1, 1);  // where the rows decide
  }
  for (std::int64_t const size : {10, 1000}) {  // nothing
    both("none-random", "random", "random", size, size, size, 0, 3);
    both("random-none", "random", "random", size, size, size, 3, 0);
  }
  for (auto const& type : kTypes) {
    for (auto const index : {CUSPARSE_INDEX_32I, CUSPARSE_INDEX_64I}) {
      if (type.code == kFloat.code && index == CUSPARSE_INDEX_32I) { continue; }
      for (std::int64_t const size : {10, 100, 1000, 10000}) {
        for (std::int64_t const count : {1, 3, 10, 32}) {
          if (count <= size) { both("random-random", "random", "random", size, size, size, count, count, type, index); }
        }
      }
    }
  }
}

/// The lower triangle, with its diagonal, of a matrix with `per_row` elements in a row.
Matrix triangle(std::int64_t size, std::int64_t per_row) {
  std::mt19937_64 random(17);
  Matrix result;
  result.rows = result.columns = size;
  for (std::int64_t row = 0; row < size; ++row) {
    auto places = drawn(std::max<std::int64_t>(1, row), std::min(row, per_row - 1), random);
    places.push_back(row);
    result.add_row(places);
  }
  return result;
}

struct System {
  Type const& type;
  cusparseIndexType_t index;
  std::int64_t size;
  std::int64_t per_row;
  std::int64_t sides;
  cusparseOperation_t operation;
  cusparseOrder_t order;
};

void solver(cusparseHandle_t handle, System const& system) {
  auto const& type = system.type;
  auto const elements = triangle(system.size, system.per_row);
  OnCard const matrix(elements, type, system.index);
  auto fill = CUSPARSE_FILL_MODE_LOWER;
  auto diagonal = CUSPARSE_DIAG_TYPE_NON_UNIT;
  cusparseSpMatSetAttribute(matrix.get(), CUSPARSE_SPMAT_FILL_MODE, &fill, sizeof fill);
  cusparseSpMatSetAttribute(matrix.get(), CUSPARSE_SPMAT_DIAG_TYPE, &diagonal, sizeof diagonal);
  DeviceMemory const dense(static_cast<std::size_t>(system.size * system.sides) * type.bytes);
  std::size_t bytes = 0;
  auto status = CUSPARSE_STATUS_SUCCESS;
  if (system.sides == 1) {
    cusparseDnVecDescr_t vector = nullptr;
    cusparseSpSVDescr_t work = nullptr;
    cusparseCreateDnVec(&vector, system.size, dense.get(), type.code);
    cusparseSpSV_createDescr(&work);
    status = cusparseSpSV_bufferSize(handle, system.operation, type.one, matrix.get(), vector, vector, type.code,
                                     CUSPARSE_SPSV_ALG_DEFAULT, work, &bytes);
    cusparseSpSV_destroyDescr(work);
    cusparseDestroyDnVec(vector);
  } else {
    cusparseDnMatDescr_t block = nullptr;
    cusparseSpSMDescr_t work = nullptr;
    auto const leading = system.order == CUSPARSE_ORDER_COL ? system.size : system.sides;
    cusparseCreateDnMat(&block, system.size, system.sides, leading, dense.get(), type.code, system.order);
    cusparseSpSM_createDescr(&work);
    status = cusparseSpSM_bufferSize(handle, system.operation, CUSPARSE_OPERATION_NON_TRANSPOSE, type.one, matrix.get(),
                                     block, block, type.code, CUSPARSE_SPSM_ALG_DEFAULT, work, &bytes);
    cusparseSpSM_destroyDescr(work);
    cusparseDestroyDnMat(block);
  }
  std::printf("%s %s %d %s %s %lld %zu %lld : %lld\n", system.sides == 1 ? "SpSV" : "SpSM", type.name,
              system.index == CUSPARSE_INDEX_32I ? 32 : 64,
              system.operation == CUSPARSE_OPERATION_NON_TRANSPOSE ? "as-is" : "transposed",
              system.order == CUSPARSE_ORDER_COL ? "columns" : "rows", static_cast<long long>(system.size),
              elements.indices.size(), static_cast<long long>(system.sides),
              status == CUSPARSE_STATUS_SUCCESS ? static_cast<long long>(bytes) : -static_cast<long long>(status));
}

void solvers(cusparseHandle_t handle) {
  std::printf(
      "# SpSV and SpSM of a triangle: type, bits of an index, the triangle as it is or transposed, right sides with "
      "columns "
      "or rows in one piece; rows, elements, right sides : bytes, or -status\n");
  constexpr auto kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;
  constexpr auto kColumns = CUSPARSE_ORDER_COL;
  for (auto const& type : kTypes) {
    if (type.bytes < 4) { continue; }  // LibTorch has none in 16 bit
    for (auto const index : {CUSPARSE_INDEX_32I, CUSPARSE_INDEX_64I}) {
      for (std::int64_t const size : {1, 10, 100, 1000, 1024, 5000, 20000}) {
        for (std::int64_t const per_row : {1, 3, 20}) {
          for (std::int64_t const sides : {1, 2, 8, 100}) {
            solver(handle, {type, index, size, per_row, sides, kAsIs, kColumns});
          }
        }
      }
      for (std::int64_t const sides : {1, 2, 40}) {
        for (auto const operation : {kAsIs, CUSPARSE_OPERATION_TRANSPOSE}) {
          for (auto const order : {kColumns, CUSPARSE_ORDER_ROW}) {
            for (std::int64_t const size : {10, 1000}) {
              solver(handle, {type, index, size, 3, sides, operation, order});
            }
          }
        }
      }
    }
  }
  for (std::int64_t const sides :
       {3, 4, 7, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 128, 200, 256, 1000}) {
    solver(handle, {kFloat, CUSPARSE_INDEX_32I, 100, 3, sides, kAsIs, kColumns});
  }
  for (std::int64_t const size : {200, 253, 254, 255, 256, 257, 300, 512, 100000, 500000}) {
    for (std::int64_t const sides : {1, 2}) {
      solver(handle, {kFloat, CUSPARSE_INDEX_32I, size, 3, sides, kAsIs, kColumns});
    }
  }
}

}  // namespace

int main() {
  cusparseHandle_t handle = nullptr;
  if (cusparseCreate(&handle) != CUSPARSE_STATUS_SUCCESS) {
    std::fprintf(stderr, "cuSPARSE does not start: is there a card?\n");
    return 1;
  }
  cudaDeviceProp card{};
  check(cudaGetDeviceProperties(&card, 0), "cudaGetDeviceProperties");
  int version = 0;
  cusparseGetVersion(handle, &version);
  std::printf("# card: %s\n# cusparse: %d\n", card.name, version);
  products(handle);
  solvers(handle);
  cusparseDestroy(handle);
}
