// cuRAND's generators: settings, and nothing behind them. LibTorch draws its numbers itself.
#include "dry_cuda/entry_point.hpp"

#include <cuda_runtime_api.h>

#include <curand.h>

struct curandGenerator_st {
  curandRngType_t type;
};

namespace {

curandStatus_t accept(curandGenerator_t generator) {
  return generator == nullptr ? CURAND_STATUS_NOT_INITIALIZED : CURAND_STATUS_SUCCESS;
}

}  // namespace

MAXBATCH_DRY_ENTRY curandStatus_t curandCreateGenerator(curandGenerator_t* generator, curandRngType_t type) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  *generator = new curandGenerator_st{type};
  return CURAND_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY curandStatus_t curandDestroyGenerator(curandGenerator_t generator) {
  delete generator;
  return CURAND_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY curandStatus_t curandSetStream(curandGenerator_t generator, cudaStream_t) {
  return accept(generator);
}
MAXBATCH_DRY_ENTRY curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long) {
  return accept(generator);
}
MAXBATCH_DRY_ENTRY curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long) {
  return accept(generator);
}
MAXBATCH_DRY_ENTRY curandStatus_t curandSetGeneratorOrdering(curandGenerator_t generator, curandOrdering_t) {
  return accept(generator);
}
MAXBATCH_DRY_ENTRY curandStatus_t curandSetQuasiRandomGeneratorDimensions(curandGenerator_t generator, unsigned int) {
  return accept(generator);
}
MAXBATCH_DRY_ENTRY curandStatus_t curandGetVersion(int* version) {
  if (version == nullptr) return CURAND_STATUS_OUT_OF_RANGE;
  *version = CURAND_VERSION;
  return CURAND_STATUS_SUCCESS;
}
