# What only the program uses: CLI11, nlohmann-json, spdlog.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)

# LibTorch ships fmt headers of its own, and spdlog includes another fmt: no translation unit may see both. A source
# that logs is built in an OBJECT library that links this, and not maxbatch::maxbatch.
add_library(maxbatch_spdlog INTERFACE)
add_library(maxbatch::spdlog ALIAS maxbatch_spdlog)
target_link_libraries(maxbatch_spdlog INTERFACE maxbatch_core spdlog::spdlog)
