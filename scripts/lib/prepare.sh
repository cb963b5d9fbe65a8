# shellcheck shell=bash
# What scripts/run and scripts/test share: Debian packages, LibTorch, configure and build. Sourced, not run.
# Says one line before whatever may take minutes, nothing otherwise.

readonly libtorch_version=2.11.0
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly root

say() { printf 'maxbatch: %s\n' "$*" >&2; }
fail() {
  say "$*"
  exit 1
}

# install_packages PACKAGE...: those that are missing, with apt-get.
install_packages() {
  command -v dpkg-query >/dev/null || return 0 # not Debian: CMake says what it does not find
  local missing=() package
  for package in "$@"; do
    [[ "$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)" == installed ]] ||
      missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  local as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
      fail "these packages are missing, and installing them needs root: sudo apt-get install ${missing[*]}"
    fi
    as_root=(sudo -n)
  fi
  say "installing ${missing[*]}"
  local log
  log="$(mktemp)"
  if ! { "${as_root[@]}" apt-get update &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${missing[@]}"; } \
    >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    fail "apt-get could not install ${missing[*]}"
  fi
  rm -f "$log"
}

# install_build_packages [TOOL...]: all that a build needs, and these programs, which are packages of the same name.
install_build_packages() {
  local packages=(libcli11-dev libgmock-dev libgtest-dev libspdlog-dev nlohmann-json3-dev zlib1g-dev) tool
  # Tools from elsewhere serve as well.
  for tool in ccache cmake g++ git "$@"; do
    command -v "$tool" >/dev/null || packages+=("$tool")
  done
  command -v ninja >/dev/null || packages+=(ninja-build)
  python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3 python3-venv)
  install_packages "${packages[@]}"
}

# torch_config_in FOLDER: the folder of TorchConfig.cmake below an entry of CMAKE_PREFIX_PATH.
torch_config_in() {
  local below
  for below in . Torch share/cmake/Torch lib/cmake/Torch torch/share/cmake/Torch; do
    if [[ -f "$1/$below/TorchConfig.cmake" ]]; then
      printf '%s\n' "$1/$below"
      return 0
    fi
  done
  return 1
}

# Puts LibTorch into CMAKE_PREFIX_PATH: the one that is there, else a copy of our own, installed once per user.
prepare_libtorch() {
  local entries=() entry config version
  IFS=: read -r -a entries <<<"${CMAKE_PREFIX_PATH:-}"
  for entry in ${entries[@]+"${entries[@]}"}; do
    config="$(torch_config_in "$entry")" || continue
    version="$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)").*/\1/p' "$config/TorchConfigVersion.cmake")"
    [[ "$version" == "${libtorch_version%.*}"* ]] && return 0
    say "CMAKE_PREFIX_PATH holds LibTorch $version, and ${libtorch_version%.*} is needed: using a copy of our own"
    break
  done

  local cache="${XDG_CACHE_HOME:-$HOME/.cache}/maxbatch"
  local installed="$cache/torch-$libtorch_version"
  mkdir -p "$cache"
  (
    flock 9 # two runs at once install it once
    [[ -d "$installed" ]] && exit 0
    say "installing LibTorch $libtorch_version from PyPI into $installed (about 6 GB on disk, once per user)"
    # Renamed when complete, so that an interrupted installation is started anew. Nothing in it is run after the move.
    rm -rf "$installed.partial"
    python3 -m venv "$installed.partial"
    if ! "$installed.partial/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-cache-dir \
      "torch==$libtorch_version" >"$installed.log" 2>&1 9>&-; then
      tail -n 20 "$installed.log" >&2
      fail "pip could not install torch==$libtorch_version (log: $installed.log)"
    fi
    rm -f "$installed.log"
    mv "$installed.partial" "$installed"
  ) 9>"$cache/torch-$libtorch_version.lock"

  local found=("$installed"/lib/python3*/site-packages/torch/share/cmake)
  [[ -f "${found[0]}/Torch/TorchConfig.cmake" ]] ||
    fail "$installed holds no LibTorch; remove that folder, and the next run installs it again"
  export CMAKE_PREFIX_PATH="${found[0]}${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"
}

# Puts an nvcc of CUDA 13 on PATH, for our own kernels: the one that is there, else a copy of our own, installed once per
# user. Without one they are off, as configuring says.
prepare_nvcc() {
  local toolkit
  for toolkit in "" "${CUDA_HOME:-}/bin/" "${CUDA_PATH:-}/bin/"; do
    "${toolkit}nvcc" --version 2>/dev/null | grep -q 'release 13\.' && return 0
  done

  local cache="${XDG_CACHE_HOME:-$HOME/.cache}/maxbatch"
  local installed="$cache/nvcc-13.0" python="$cache/torch-$libtorch_version/bin/python"
  [[ -x "$python" ]] || return 0 # LibTorch came from elsewhere
  (
    flock 9
    [[ -d "$installed" ]] && exit 0
    say "installing nvcc from PyPI into $installed (about 270 MB on disk, once per user)"
    rm -rf "$installed.partial"
    if ! "$python" -m pip install --quiet --disable-pip-version-check --no-input --no-cache-dir --no-deps \
      --target "$installed.partial" --requirement "$root/scripts/lib/nvcc.txt" >"$installed.log" 2>&1 9>&-; then
      say "it could not be installed, so our CUDA kernels are off (log: $installed.log)"
      exit 0
    fi
    rm -f "$installed.log"
    mv "$installed.partial" "$installed"
  ) 9>"$installed.lock"
  export PATH="$PATH:$installed/nvidia/cu13/bin"
}

# Compiles at once: a source with LibTorch's headers takes up to 2 GB.
build_jobs() {
  local cores available_kib jobs
  cores="$(nproc)"
  available_kib="$(awk '/^MemAvailable/ {print $2}' /proc/meminfo)"
  jobs=$((available_kib / (2 * 1024 * 1024)))
  ((jobs < 1)) && jobs=1
  ((jobs > cores)) && jobs=$cores
  printf '%s\n' "$jobs"
}

# configure PRESET and build PRESET [TARGET...]: the output is shown on failure only. Runs at once take turns.
configure() {
  local preset="$1" log="$root/build/$1.log"
  mkdir -p "$root/build"
  (
    flock 9
    cd "$root"
    if ! cmake --preset "$preset" >"$log" 2>&1; then
      cat "$log" >&2
      fail "cmake --preset $preset failed"
    fi
  ) 9>"$root/build/$preset.lock"
}

build() {
  local preset="$1" folder="$root/build/$1" log="$root/build/$1.log"
  configure "$preset"
  shift
  [[ -f "$folder/.ninja_log" ]] || say "building $preset for the first time: some minutes"
  (
    flock 9
    if ! cmake --build "$folder" --parallel "$(build_jobs)" ${1+--target "$@"} >"$log" 2>&1; then
      grep -v '^\[[0-9]*/[0-9]*\] \(Building\|Linking\|Creating\)' "$log" | head -n 100 >&2
      fail "building $preset failed (whole log: build/$preset.log)"
    fi
  ) 9>"$root/build/$preset.lock"
}

# Lines of python_models.txt that are not in this folder.
missing_python_models() {
  local line name
  while read -r line; do
    name="${line%%==*}"
    [[ -d "$1/${name//-/_}-${line##*==}.dist-info" ]] || echo "$line"
  done <"$root/scripts/lib/python_models.txt"
}

# Models and trainers for a dry card: torchvision, timm, transformers, Accelerate and Lightning, beside LibTorch's own Python. Tests
# that need them are skipped, with the reason, where they could not be had.
prepare_python_models() {
  local cache="${XDG_CACHE_HOME:-$HOME/.cache}/maxbatch"
  local installed="$cache/python-models-$libtorch_version" python="$cache/torch-$libtorch_version/bin/python"
  python_models="$installed"
  [[ -x "$python" ]] || return 0 # LibTorch came from elsewhere
  (
    flock 9
    local missing new
    missing="$(missing_python_models "$installed")"
    [[ -n "$missing" ]] || exit 0
    # What is there already may be in use, and is only added to.
    [[ -d "$installed" ]] && new="$installed" || new="$installed.partial"
    say "installing torchvision, timm, transformers and others from PyPI into $installed (about 340 MB on disk, once per user)"
    rm -rf "$installed.partial"
    if ! "$python" -m pip install --quiet --disable-pip-version-check --no-input --no-cache-dir --no-deps --retries 2 \
      --target "$new" --requirement <(echo "$missing") >"$installed.log" 2>&1 9>&-; then
      say "they could not be installed, so tests that need them are skipped (log: $installed.log)"
      exit 0
    fi
    rm -f "$installed.log"
    [[ "$new" == "$installed" ]] || mv "$new" "$installed"
  ) 9>"$cache/python-models-$libtorch_version.lock"
}
