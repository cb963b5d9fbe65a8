"""How the tables beside this file name a kernel: 64 bits, FNV-1a, of its mangled name (runtime/kernel_name_hash.hpp)."""


def hash_of(name: str) -> int:
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value
