#pragma once

// The cards as data. How the figures were found and how to add a card: docs/cards.md.

#include <maxbatch/simulation/card.hpp>

#include <cstdint>
#include <string_view>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

constexpr FigureSource published(std::string_view text) { return {FigureEvidence::published, text}; }
constexpr FigureSource estimated(std::string_view text) { return {FigureEvidence::estimated, text}; }
constexpr FigureSource measured(std::string_view text) { return {FigureEvidence::measured, text}; }
constexpr std::int64_t mib(std::int64_t count) { return count << 20; }
constexpr Bytes kib(std::int64_t count) { return Bytes{count << 10}; }

inline constexpr FigureSource kCapabilityTable = published(
    "CUDA Programming Guide, Compute Capabilities, technical specifications: "
    "https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/compute-capabilities.html; "
    "the blocks also in the toolkit's cuda_occupancy.h");

// Threads and blocks per multiprocessor; shared memory per multiprocessor, at most per block, reserved per block.
// clang-format off
inline constexpr CardArchitecture kArchitectures[] = {
    { {6, 0}, "Pascal",       2048, 32, kib(64),  kib(48),  kib(0), kCapabilityTable},
    { {6, 1}, "Pascal",       2048, 32, kib(96),  kib(48),  kib(0), kCapabilityTable},
    { {7, 0}, "Volta",        2048, 32, kib(96),  kib(96),  kib(0), kCapabilityTable},
    { {7, 5}, "Turing",       1024, 16, kib(64),  kib(64),  kib(0), kCapabilityTable},
    { {8, 0}, "Ampere",       2048, 32, kib(164), kib(163), kib(1), kCapabilityTable},
    { {8, 6}, "Ampere",       1536, 16, kib(100), kib(99),  kib(1), kCapabilityTable},
    { {8, 9}, "Ada Lovelace", 1536, 24, kib(100), kib(99),  kib(1), kCapabilityTable},
    { {9, 0}, "Hopper",       2048, 32, kib(228), kib(227), kib(1), kCapabilityTable},
    {{10, 0}, "Blackwell",    2048, 32, kib(228), kib(227), kib(1), kCapabilityTable},
    {{12, 0}, "Blackwell",    1536, 24, kib(100), kib(99),  kib(1), kCapabilityTable},
};
// clang-format on

/// What `torch._C._cuda_getArchFlags()` of the wheel says: machine code only, no PTX.
inline constexpr std::string_view kKernelsBuild = "2.11.0+cu130";
inline constexpr ComputeCapability kKernelsInBuild[] = {{7, 5}, {8, 0}, {8, 6}, {9, 0}, {10, 0}, {12, 0}};

inline constexpr FigureSource kGeForce = published(
    "the card's specification page at NVIDIA, https://www.nvidia.com/en-us/geforce/graphics-cards/compare/, and "
    "in https://www.techpowerup.com/gpu-specs/; clocks of the reference card");
inline constexpr FigureSource kProfessional = published(
    "the card's data sheet at NVIDIA, https://www.nvidia.com/en-us/products/workstations/, and its page in "
    "https://www.techpowerup.com/gpu-specs/");
inline constexpr FigureSource kDataCentre = published(
    "the card's data sheet at NVIDIA, https://www.nvidia.com/en-us/data-center/, and its page in "
    "https://www.techpowerup.com/gpu-specs/");

struct CardRow {
  std::string_view name;
  std::string_view aliases;
  std::string_view device_name;
  ComputeCapability capability;
  int multiprocessors;
  int l2_kib;
  int bus_bits;
  int clock_mhz;
  int memory_clock_mhz;
  bool ecc;
  int marketed_gib;
  std::int64_t total_bytes;
  FigureSource total_source;
  FigureSource hardware_source;
};

inline constexpr bool kEcc = true;
inline constexpr bool kNoEcc = false;

// Where an output gives MiB only, the total is that many: up to 1 MiB less than the card reports.
// clang-format off
inline constexpr CardRow kCardRows[] = {
    // GeForce 10 and its TITANs: Pascal.
    {"gtx-1060-6gb", "gtx-1060 1060", "NVIDIA GeForce GTX 1060 6GB",
     {6, 1}, 10, 1536, 192, 1709, 4004, kNoEcc, 6, 6373638144,
     published("deviceQuery, driver of CUDA 11.6: \"6078 MBytes (6373638144 bytes)\"; with CUDA 8.0 6072 MBytes, "
               "https://gist.github.com/claytantor/0210c479035ab0c586056c2ec28a2d87"), kGeForce},
    {"gtx-1070", "1070", "NVIDIA GeForce GTX 1070",
     {6, 1}, 15, 2048, 256, 1683, 4004, kNoEcc, 8, 8510701568,
     published("deviceQuery, driver of CUDA 10.1: \"8116 MBytes (8510701568 bytes)\""), kGeForce},
    {"gtx-1070-ti", "1070ti", "NVIDIA GeForce GTX 1070 Ti",
     {6, 1}, 19, 2048, 256, 1683, 4004, kNoEcc, 8, 8500871168,
     estimated("as the GTX 1080: same chip, same memory"), kGeForce},
    {"gtx-1080", "1080", "NVIDIA GeForce GTX 1080",
     {6, 1}, 20, 2048, 256, 1734, 5005, kNoEcc, 8, 8500871168,
     published("deviceQuery, driver of CUDA 12.6: \"8107 MBytes (8500871168 bytes)\""), kGeForce},
    {"gtx-1080-ti", "1080ti", "NVIDIA GeForce GTX 1080 Ti",
     {6, 1}, 28, 2816, 352, 1582, 5505, kNoEcc, 11, 11714887680,
     published("deviceQuery, driver of CUDA 12.1: \"11172 MBytes (11714887680 bytes)\"; with CUDA 8.0 11171 MBytes, "
               "https://gist.github.com/lijunzh/9221ed655f6772c42ca088e66258eda8"), kGeForce},
    {"titan-x-pascal", "titan-x", "NVIDIA TITAN X (Pascal)",
     {6, 1}, 28, 3072, 384, 1531, 5005, kNoEcc, 12, 12781158400,
     published("deviceQuery, driver of CUDA 8.0: \"12189 MBytes (12781158400 bytes)\""), kGeForce},
    {"titan-xp", "", "NVIDIA TITAN Xp",
     {6, 1}, 30, 3072, 384, 1582, 5705, kNoEcc, 12, 12778864640,
     published("PyTorch 2.3.1+cu121: \"NVIDIA TITAN Xp, 12186.875MB\""), kGeForce},
    {"titan-v", "", "NVIDIA TITAN V",
     {7, 0}, 80, 4608, 3072, 1455, 850, kNoEcc, 12, 12653035520,
     published("deviceQuery, driver of CUDA 11.7: \"12067 MBytes (12653035520 bytes)\""), kGeForce},

    // GeForce 16 and 20: Turing.
    {"gtx-1650", "1650", "NVIDIA GeForce GTX 1650",
     {7, 5}, 14, 1024, 128, 1665, 4001, kNoEcc, 4, 3896180736,
     published("deviceQuery, driver of CUDA 13.0: \"3716 MBytes (3896180736 bytes)\"; with CUDA 12.2 3904 "
               "MBytes"), kGeForce},
    {"gtx-1660-ti", "1660ti", "NVIDIA GeForce GTX 1660 Ti",
     {7, 5}, 24, 1536, 192, 1770, 6001, kNoEcc, 6, mib(5936),
     published("PyTorch: \"name='NVIDIA GeForce GTX 1660 Ti', major=7, minor=5, total_memory=5936MB\""), kGeForce},
    {"rtx-2060", "2060", "NVIDIA GeForce RTX 2060",
     {7, 5}, 30, 3072, 192, 1680, 7001, kNoEcc, 6, 6204162048,
     published("deviceQuery, driver of CUDA 12.4: \"5917 MBytes (6204162048 bytes)\"; with CUDA 10.1 5901 MBytes, "
               "https://gist.github.com/kazken3/fdfcfb14dc0f584e6f50e8ff9f7e9994"), kGeForce},
    {"rtx-2060-super", "2060super", "NVIDIA GeForce RTX 2060 SUPER",
     {7, 5}, 34, 4096, 256, 1650, 7001, kNoEcc, 8, 8352038912,
     published("deviceQuery, driver of CUDA 13.0: \"7965 MBytes (8352038912 bytes)\""), kGeForce},
    {"rtx-2070", "2070", "NVIDIA GeForce RTX 2070",
     {7, 5}, 36, 4096, 256, 1620, 7001, kNoEcc, 8, 8370061312,
     published("deviceQuery, driver of CUDA 10.1: \"7982 MBytes (8370061312 bytes)\""), kGeForce},
    {"rtx-2070-super", "2070super", "NVIDIA GeForce RTX 2070 SUPER",
     {7, 5}, 40, 4096, 256, 1770, 7001, kNoEcc, 8, 8164081664,
     published("deviceQueryDrv, driver of CUDA 12.9: \"7786 MBytes (8164081664 bytes)\""), kGeForce},
    {"rtx-2080", "2080", "NVIDIA GeForce RTX 2080",
     {7, 5}, 46, 4096, 256, 1710, 7001, kNoEcc, 8, mib(7778),
     published("\"NVIDIA GeForce RTX 2080, Total Global Memory: 7778 MB\", "
               "https://github.com/abdullah0096/learningCuda, lv0_myConfig.md; with an older driver 7966 MiB"), kGeForce},
    {"rtx-2080-super", "2080super", "NVIDIA GeForce RTX 2080 SUPER",
     {7, 5}, 48, 4096, 256, 1815, 7751, kNoEcc, 8, mib(7778),
     estimated("as the RTX 2080: same chip, same memory"), kGeForce},
    {"rtx-2080-ti", "2080ti", "NVIDIA GeForce RTX 2080 Ti",
     {7, 5}, 68, 5632, 352, 1545, 7000, kNoEcc, 11, 11348672512,
     published("deviceQuery, driver of CUDA 12.8: \"10823 MBytes (11348672512 bytes)\"; with CUDA 11.5 11019, with 10.1 "
               "10989 MBytes, https://gist.github.com/jkrauska/d25e9dfcbe2c0a0ec08e06d8d12c8b9f"), kGeForce},
    {"titan-rtx", "", "NVIDIA TITAN RTX",
     {7, 5}, 72, 6144, 384, 1770, 7001, kNoEcc, 24, mib(24212),
     published("PyTorch 1.13.1+cu117: \"NVIDIA TITAN RTX, 24212MiB\""), kGeForce},

    // GeForce 30: Ampere.
    {"rtx-3050-8gb", "rtx-3050 3050", "NVIDIA GeForce RTX 3050",
     {8, 6}, 20, 2048, 128, 1777, 7001, kNoEcc, 8, 8197111808,
     estimated("as the RTX 3070: same architecture, memory of the same size"), kGeForce},
    {"rtx-3060", "3060", "NVIDIA GeForce RTX 3060",
     {8, 6}, 28, 2304, 192, 1777, 7501, kNoEcc, 12, mib(11901),
     published("deviceQuery, driver of CUDA 13.0: \"11901 MBytes\"; with CUDA 12.2 12044, with 12.4 12004 "
               "MBytes"), kGeForce},
    {"rtx-3060-ti", "3060ti", "NVIDIA GeForce RTX 3060 Ti",
     {8, 6}, 38, 3072, 256, 1665, 7001, kNoEcc, 8, 8359641088,
     published("deviceQuery, driver of CUDA 12.2: \"7972 MBytes (8359641088 bytes)\""), kGeForce},
    {"rtx-3070", "3070", "NVIDIA GeForce RTX 3070",
     {8, 6}, 46, 4096, 256, 1725, 7001, kNoEcc, 8, 8197111808,
     published("deviceQuery, driver of CUDA 12.8: \"7817 MBytes (8197111808 bytes)\"; with CUDA 11.7 7974 "
               "MBytes"), kGeForce},
    {"rtx-3070-ti", "3070ti", "NVIDIA GeForce RTX 3070 Ti",
     {8, 6}, 48, 4096, 256, 1770, 9501, kNoEcc, 8, mib(7840),
     published("llama.cpp: \"NVIDIA GeForce RTX 3070 Ti, compute capability 8.6, VMM: yes, VRAM: 7840 "
               "MiB\""), kGeForce},
    {"rtx-3080", "3080 rtx-3080-10gb", "NVIDIA GeForce RTX 3080",
     {8, 6}, 68, 5120, 320, 1710, 9501, kNoEcc, 10, 10472390656,
     published("deviceQuery, driver of CUDA 12.0: \"9987 MBytes (10472390656 bytes)\""), kGeForce},
    {"rtx-3080-ti", "3080ti", "NVIDIA GeForce RTX 3080 Ti",
     {8, 6}, 80, 6144, 384, 1665, 9501, kNoEcc, 12, 12630491136,
     published("deviceQuery, driver of CUDA 11.4: \"12045 MBytes (12630491136 bytes)\""), kGeForce},
    {"rtx-3090", "3090", "NVIDIA GeForce RTX 3090",
     {8, 6}, 82, 6144, 384, 1695, 9751, kNoEcc, 24, 25414860800,
     published("deviceQuery, driver of CUDA 12.2: \"24238 MBytes (25414860800 bytes)\"; before, total_memory=24268MB: "
               "https://huggingface.co/docs/transformers/debugging"), kGeForce},
    {"rtx-3090-ti", "3090ti", "NVIDIA GeForce RTX 3090 Ti",
     {8, 6}, 84, 6144, 384, 1860, 10501, kNoEcc, 24, mib(24110),
     published("PyTorch 2.9.1+cu128: \"NVIDIA GeForce RTX 3090 Ti, 24110MiB\""), kGeForce},

    // GeForce 40: Ada Lovelace.
    {"rtx-4060", "4060", "NVIDIA GeForce RTX 4060",
     {8, 9}, 24, 24576, 128, 2460, 8501, kNoEcc, 8, mib(7807),
     published("PyTorch 2.5.1+cu121: \"NVIDIA GeForce RTX 4060, 7807MiB\""), kGeForce},
    {"rtx-4060-ti-8gb", "4060ti-8gb", "NVIDIA GeForce RTX 4060 Ti",
     {8, 9}, 34, 32768, 128, 2535, 9001, kNoEcc, 8, mib(7806),
     published("PyTorch 2.12.1+cu130: \"NVIDIA GeForce RTX 4060 Ti, 7806MiB\""), kGeForce},
    {"rtx-4060-ti-16gb", "4060ti-16gb", "NVIDIA GeForce RTX 4060 Ti",
     {8, 9}, 34, 32768, 128, 2535, 9001, kNoEcc, 16, 16722821120,
     published("deviceQuery, driver of CUDA 13.1: \"15948 MBytes (16722821120 bytes)\""), kGeForce},
    {"rtx-4070", "4070", "NVIDIA GeForce RTX 4070",
     {8, 9}, 46, 36864, 192, 2475, 10501, kNoEcc, 12, mib(12002),
     published("PyTorch 2.5.1+cu124: \"NVIDIA GeForce RTX 4070, 12002MiB\""), kGeForce},
    {"rtx-4070-super", "4070super", "NVIDIA GeForce RTX 4070 SUPER",
     {8, 9}, 56, 49152, 192, 2475, 10501, kNoEcc, 12, mib(12002),
     estimated("as the RTX 4070: same chip, same memory"), kGeForce},
    {"rtx-4070-ti", "4070ti", "NVIDIA GeForce RTX 4070 Ti",
     {8, 9}, 60, 49152, 192, 2610, 10501, kNoEcc, 12, mib(12007),
     published("PyTorch 2.1.1+cu121: \"NVIDIA GeForce RTX 4070 Ti, 12007MiB\""), kGeForce},
    {"rtx-4070-ti-super", "4070ti-super", "NVIDIA GeForce RTX 4070 Ti SUPER",
     {8, 9}, 66, 49152, 256, 2610, 10501, kNoEcc, 16, mib(16069),
     published("PyTorch 2.0.0+cu117: \"NVIDIA GeForce RTX 4070 Ti SUPER, 16069MiB\""), kGeForce},
    {"rtx-4080", "4080", "NVIDIA GeForce RTX 4080",
     {8, 9}, 76, 65536, 256, 2505, 11201, kNoEcc, 16, 16852844544,
     estimated("as the RTX 4080 SUPER: same chip, same memory"), kGeForce},
    {"rtx-4080-super", "4080super", "NVIDIA GeForce RTX 4080 SUPER",
     {8, 9}, 80, 65536, 256, 2550, 11501, kNoEcc, 16, 16852844544,
     published("deviceQuery, driver of CUDA 12.4: \"16072 MBytes (16852844544 bytes)\""), kGeForce},
    {"rtx-4090", "4090", "NVIDIA GeForce RTX 4090",
     {8, 9}, 128, 73728, 384, 2520, 10501, kNoEcc, 24, 25250627584,
     published("deviceQuery, driver of CUDA 13.0: \"24081 MBytes (25250627584 bytes)\"; with PyTorch 2.1 24209 "
               "MiB"), kGeForce},

    // GeForce 50: Blackwell.
    {"rtx-5060-ti-8gb", "5060ti-8gb", "NVIDIA GeForce RTX 5060 Ti",
     {12, 0}, 36, 32768, 128, 2572, 14001, kNoEcc, 8, mib(7688),
     estimated("what nvidia-smi says, 8151 MiB, less what the driver keeps of the 16 GB card, 463 MiB"), kGeForce},
    {"rtx-5060-ti-16gb", "5060ti-16gb", "NVIDIA GeForce RTX 5060 Ti",
     {12, 0}, 36, 32768, 128, 2572, 14001, kNoEcc, 16, mib(15848),
     published("PyTorch 2.12.0+cu130: \"NVIDIA GeForce RTX 5060 Ti, 15848MiB\""), kGeForce},
    {"rtx-5070", "5070", "NVIDIA GeForce RTX 5070",
     {12, 0}, 48, 49152, 192, 2512, 14001, kNoEcc, 12, mib(11804),
     estimated("what nvidia-smi says, 12227 MiB, less what the driver keeps of the RTX 5080, 423 MiB"), kGeForce},
    {"rtx-5070-ti", "5070ti", "NVIDIA GeForce RTX 5070 Ti",
     {12, 0}, 70, 49152, 256, 2452, 14001, kNoEcc, 16, mib(15842),
     published("llama.cpp: \"NVIDIA GeForce RTX 5070 Ti, compute capability 12.0, VMM: yes, VRAM: 15842 "
               "MiB\""), kGeForce},
    {"rtx-5080", "5080", "NVIDIA GeForce RTX 5080",
     {12, 0}, 84, 65536, 256, 2617, 15001, kNoEcc, 16, mib(15880),
     published("llama.cpp: \"NVIDIA GeForce RTX 5080, compute capability 12.0, VMM: yes, VRAM: 15880 MiB\""), kGeForce},
    {"rtx-5090", "5090", "NVIDIA GeForce RTX 5090",
     {12, 0}, 170, 98304, 512, 2407, 14001, kNoEcc, 32, 33677180928,
     published("deviceQuery, driver of CUDA 12.8: 32117 MBytes (33677180928 bytes), "
               "https://github.com/aikitoria/open-gpu-kernel-modules/issues/1; with CUDA 13.0 32101 MBytes"), kGeForce},

    // RTX professional, and Quadro before.
    {"quadro-p6000", "p6000", "Quadro P6000",
     {6, 1}, 30, 3072, 384, 1645, 4513, kNoEcc, 24, mib(24374),
     estimated("the size on the box less twice what the driver keeps of the TITAN Xp, same chip with half of the "
               "memory: 101 MiB"), kProfessional},
    {"quadro-rtx-4000", "", "Quadro RTX 4000",
     {7, 5}, 36, 4096, 256, 1545, 6501, kNoEcc, 8, 8370192384,
     published("deviceQuery, driver of CUDA 11.7: \"7982 MBytes (8370192384 bytes)\""), kProfessional},
    {"quadro-rtx-5000", "", "Quadro RTX 5000",
     {7, 5}, 48, 4096, 256, 1815, 7001, kEcc, 16, 15634726912,
     published("deviceQuery, driver of CUDA 13.0: \"14910 MBytes (15634726912 bytes)\""), kProfessional},
    {"quadro-rtx-6000", "", "Quadro RTX 6000",
     {7, 5}, 72, 6144, 384, 1770, 7001, kNoEcc, 24, mib(24212),
     estimated("as the TITAN RTX: same chip, same memory; without ECC, which takes a sixteenth"), kProfessional},
    {"quadro-rtx-8000", "rtx-8000", "Quadro RTX 8000",
     {7, 5}, 72, 6144, 384, 1770, 7001, kNoEcc, 48, mib(48601),
     published("PyTorch: \"name='Quadro RTX 8000', major=7, minor=5, total_memory=48601MB\""), kProfessional},
    {"rtx-a2000-12gb", "rtx-a2000 a2000", "NVIDIA RTX A2000 12GB",
     {8, 6}, 26, 3072, 192, 1200, 6001, kNoEcc, 12, mib(12017),
     published("PyTorch 2.1.0+cu118: \"NVIDIA RTX A2000 12GB, 12017MiB\""), kProfessional},
    {"rtx-a4000", "a4000", "NVIDIA RTX A4000",
     {8, 6}, 48, 4096, 256, 1560, 7001, kNoEcc, 16, mib(16117),
     published("PyTorch 1.12.1+cu116: \"NVIDIA RTX A4000, 16117MiB\""), kProfessional},
    {"rtx-a4500", "a4500", "NVIDIA RTX A4500",
     {8, 6}, 56, 6144, 320, 1650, 8001, kNoEcc, 20, mib(20020),
     estimated("what nvidia-smi says, 20470 MiB, less what the driver keeps of the RTX A5000, 450 MiB"), kProfessional},
    {"rtx-a5000", "a5000", "NVIDIA RTX A5000",
     {8, 6}, 64, 6144, 384, 1695, 8001, kNoEcc, 24, mib(24114),
     published("PyTorch: \"name='NVIDIA RTX A5000', major=8, minor=6, total_memory=24114MB\""), kProfessional},
    {"rtx-a6000", "a6000", "NVIDIA RTX A6000",
     {8, 6}, 84, 6144, 384, 1800, 8001, kNoEcc, 48, mib(48670),
     published("PyTorch 2.3.0: \"NVIDIA RTX A6000, 48670MiB\", "
               "https://github.com/ultralytics/ultralytics/issues/19084"), kProfessional},
    {"rtx-4000-ada", "", "NVIDIA RTX 4000 Ada Generation",
     {8, 9}, 48, 49152, 160, 2175, 9001, kNoEcc, 20, mib(19855),
     estimated("what nvidia-smi says, 20475 MiB, less what the driver keeps of the RTX 6000 Ada, 620 "
               "MiB"), kProfessional},
    {"rtx-5000-ada", "", "NVIDIA RTX 5000 Ada Generation",
     {8, 9}, 100, 73728, 256, 2550, 9001, kNoEcc, 32, mib(32140),
     estimated("what nvidia-smi says, 32760 MiB, less what the driver keeps of the RTX 6000 Ada, 620 "
               "MiB"), kProfessional},
    {"rtx-6000-ada", "", "NVIDIA RTX 6000 Ada Generation",
     {8, 9}, 142, 98304, 384, 2505, 10001, kNoEcc, 48, mib(48520),
     published("PyTorch 2.7.0+cu128: \"NVIDIA RTX 6000 Ada Generation, 48520MiB\""), kProfessional},
    {"rtx-pro-6000-blackwell", "rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
     {12, 0}, 188, 131072, 512, 2617, 14001, kNoEcc, 96, mib(97247),
     published("llama.cpp: \"Total VRAM: 97247 MiB\"; the Server Edition with PyTorch 2.7.1+cu128 97250 "
               "MiB"), kProfessional},

    // Data centre.
    {"p100-pcie-16gb", "p100-pcie", "Tesla P100-PCIE-16GB",
     {6, 0}, 56, 4096, 4096, 1329, 715, kEcc, 16, 17071734784,
     published("deviceQuery, driver of CUDA 11.4: \"16281 MBytes (17071734784 bytes)\""), kDataCentre},
    {"p100-sxm2-16gb", "p100-sxm2 p100-sxm", "Tesla P100-SXM2-16GB",
     {6, 0}, 56, 4096, 4096, 1480, 715, kEcc, 16, 17071734784,
     estimated("as the P100 for PCIe: same chip, same memory"), kDataCentre},
    {"p40", "", "Tesla P40",
     {6, 1}, 30, 3072, 384, 1531, 3615, kEcc, 24, 24032378880,
     published("deviceQuery, driver of CUDA 10.0: \"22919 MBytes (24032378880 bytes)\""), kDataCentre},
    {"v100-pcie-16gb", "v100-pcie", "Tesla V100-PCIE-16GB",
     {7, 0}, 80, 6144, 4096, 1380, 877, kEcc, 16, mib(16160),
     published("PyTorch: \"name='Tesla V100-PCIE-16GB', major=7, minor=0, total_memory=16160MB\""), kDataCentre},
    {"v100-sxm2-16gb", "v100-16gb", "Tesla V100-SXM2-16GB",
     {7, 0}, 80, 6144, 4096, 1530, 877, kEcc, 16, 16928342016,
     published("deviceQuery, driver of CUDA 12.4: \"16144 MBytes (16928342016 bytes)\""), kDataCentre},
    {"v100-sxm2-32gb", "v100-32gb", "Tesla V100-SXM2-32GB",
     {7, 0}, 80, 6144, 4096, 1530, 877, kEcc, 32, 34072559616,
     published("deviceQuery, driver of CUDA 12.9: \"32494 MBytes (34072559616 bytes)\""), kDataCentre},
    {"t4", "", "Tesla T4",
     {7, 5}, 40, 4096, 256, 1590, 5001, kEcc, 16, 15642329088,
     published("deviceQuery, driver of CUDA 12.5: \"14918 MBytes (15642329088 bytes)\"; with CUDA 11.2 15110 "
               "MBytes"), kDataCentre},
    {"a10", "", "NVIDIA A10",
     {8, 6}, 72, 6144, 384, 1695, 6251, kEcc, 24, 23609475072,
     published("deviceQuery, driver of CUDA 12.2: \"22516 MBytes (23609475072 bytes)\""), kDataCentre},
    {"a10g", "", "NVIDIA A10G",
     {8, 6}, 80, 6144, 384, 1710, 6251, kEcc, 24, mib(22587),
     published("PyTorch 2.15 for CUDA 13.0: \"name='NVIDIA A10G', major=8, minor=6, "
               "total_memory=22587MB\""), kDataCentre},
    {"a30", "", "NVIDIA A30",
     {8, 0}, 56, 24576, 3072, 1440, 1215, kEcc, 24, mib(24164),
     published("PyTorch 2.8.0+cu128: \"NVIDIA A30, 24164MiB\""), kDataCentre},
    {"a40", "", "NVIDIA A40",
     {8, 6}, 84, 6144, 384, 1740, 7251, kEcc, 48, 47608692736,
     published("deviceQuery, driver of CUDA 12.4: \"45403 MBytes (47608692736 bytes)\""), kDataCentre},
    {"a100-pcie-40gb", "", "NVIDIA A100-PCIE-40GB",
     {8, 0}, 108, 40960, 5120, 1410, 1215, kEcc, 40, 42405855232,
     published("deviceQuery, driver of CUDA 13.0: \"40441 MBytes (42405855232 bytes)\"; before, 40339 MiB, "
               "https://huggingface.co/PrunaAI/mattshumer-Llama-3-8B-16K-HQQ-4bit-smashed, results.json"), kDataCentre},
    {"a100-sxm4-40gb", "a100-sxm-40gb a100-40gb", "NVIDIA A100-SXM4-40GB",
     {8, 0}, 108, 40960, 5120, 1410, 1215, kEcc, 40, mib(40441),
     published("PyTorch 2.11.0+cu128: \"NVIDIA A100-SXM4-40GB, 40441MiB\"; with PyTorch 2.3 40514 MiB"), kDataCentre},
    {"a100-pcie-80gb", "", "NVIDIA A100 80GB PCIe",
     {8, 0}, 108, 40960, 5120, 1410, 1512, kEcc, 80, mib(81154),
     published("PyTorch 2.6.0+cu124: \"NVIDIA A100 80GB PCIe, 81154MiB\""), kDataCentre},
    {"a100-sxm4-80gb", "a100-sxm-80gb a100-80gb", "NVIDIA A100-SXM4-80GB",
     {8, 0}, 108, 40960, 5120, 1410, 1593, kEcc, 80, 85100068864,
     published("deviceQuery, driver of CUDA 12.5: \"81158 MBytes (85100068864 bytes)\"; with CUDA 11.4 81251 MBytes, "
               "https://gist.github.com/gengwg/3520df2ebf8872e5ee4818367e3a4122"), kDataCentre},
    {"l4", "", "NVIDIA L4",
     {8, 9}, 58, 49152, 192, 2040, 6251, kEcc, 24, mib(22563),
     published("PyTorch 2.11.0+cu128: \"NVIDIA L4, 22563MiB\"; with PyTorch 2.5 22693 MiB"), kDataCentre},
    {"l40", "", "NVIDIA L40",
     {8, 9}, 142, 98304, 384, 2490, 9001, kEcc, 48, 47576711168,
     estimated("as the L40S: same chip, same memory"), kDataCentre},
    {"l40s", "", "NVIDIA L40S",
     {8, 9}, 142, 98304, 384, 2520, 9001, kEcc, 48, 47576711168,
     published("deviceQuery, driver of CUDA 12.4: \"45373 MBytes (47576711168 bytes)\"; before, PyTorch 45589 "
               "MiB"), kDataCentre},
    {"h100-pcie", "", "NVIDIA H100 PCIe",
     {9, 0}, 114, 51200, 5120, 1755, 1593, kEcc, 80, mib(81008),
     published("PyTorch: \"name='NVIDIA H100 PCIe', major=9, minor=0, total_memory=81008MB\""), kDataCentre},
    {"h100-sxm", "h100-sxm5 h100-80gb", "NVIDIA H100 80GB HBM3",
     {9, 0}, 132, 51200, 5120, 1980, 2619, kEcc, 80, 85017755648,
     published("deviceQuery, driver of CUDA 13.0: \"81079 MBytes (85017755648 bytes)\"; with CUDA 12.8 81089 MiB, "
               "https://github.com/stas00/ml-engineering"), kDataCentre},
    {"h100-nvl", "", "NVIDIA H100 NVL",
     {9, 0}, 132, 61440, 6016, 1785, 2619, kEcc, 94, mib(95320),
     published("PyTorch 2.13.0+cu130: \"NVIDIA H100 NVL, 95320MiB\""), kDataCentre},
    {"h200", "h200-sxm", "NVIDIA H200",
     {9, 0}, 132, 61440, 6016, 1980, 3201, kEcc, 141, 150109880320,
     measured("on an H200, driver 580.159.04, CUDA 13.0"),
     measured("on an H200, driver 580.159.04, CUDA 13.0")},
    {"gh200-96gb", "gh200", "NVIDIA GH200 480GB",
     {9, 0}, 132, 61440, 6144, 1980, 2619, kEcc, 96, mib(97361),
     estimated("what nvidia-smi says, 97871 MiB, less what the driver keeps of the H100 NVL, 510 MiB"),
     estimated("the H200's chip with the H100's memory clock")},
    {"b200", "", "NVIDIA B200",
     {10, 0}, 148, 129024, 8192, 1965, 3996, kEcc, 180, mib(182631),
     published("PyTorch: \"name='NVIDIA B200', major=10, minor=0, total_memory=182631MB\""), kDataCentre},
};
// clang-format on

// The H200's: 32 MiB and 72 MiB of the driver's own, then the local memory, before and after it grows.
inline constexpr Bytes kContextFixed = Bytes{mib(32 + 72)};
inline constexpr Bytes kContextGrownFixed = Bytes{mib(2)};
inline constexpr Bytes kLocalMemory = Bytes{mib(414)};
inline constexpr Bytes kGrownLocalMemory = Bytes{mib(504)};
inline constexpr std::int64_t kLocalMemoryThreads = std::int64_t{132} * 2048;
inline constexpr FigureSource kContextMeasured =
    measured("on an H200, driver 580.159.04, CUDA 13.0, from what the driver asked the kernel for");
inline constexpr FigureSource kContextEstimated = estimated(
    "the H200's: 104 MiB, and local memory in proportion to multiprocessors x threads per multiprocessor "
    "(414 MiB, growing to 506 MiB, for 270,336), in steps of 2 MiB");

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
