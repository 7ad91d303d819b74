"""The few calls of the CUDA driver that this package makes, through ctypes on libcuda."""

from __future__ import annotations

import ctypes
from functools import cache

from .errors import DriverError, Unsupported

__all__ = ["Driver", "Function", "driver", "pdl_attribute"]

REGISTER_PORTABLE_DEVICEMAP = 3
ATTRIBUTES = {
    "multiprocessors": 16,
    "major": 75,
    "minor": 76,
    "pci_bus": 33,
    "pci_device": 34,
    "pci_domain": 50,
    "host_native_atomics": 86,
    "can_map_host_memory": 19,
}
FUNCTION_ATTRIBUTES = {"shared": 1, "local": 3, "registers": 4, "max_threads": 0}


class Dim(ctypes.Structure):
    """Attribute value of a kernel launch, 64 bytes as in cuda.h."""

    _fields_ = (("value", ctypes.c_int), ("rest", ctypes.c_byte * 60))


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_byte * 4), ("value", Dim))


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid_x", ctypes.c_uint),
        ("grid_y", ctypes.c_uint),
        ("grid_z", ctypes.c_uint),
        ("block_x", ctypes.c_uint),
        ("block_y", ctypes.c_uint),
        ("block_z", ctypes.c_uint),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    )


def pdl_attribute() -> LaunchAttribute:
    """Programmatic stream serialisation: the kernel may start before its predecessor ends (sm_90 and newer)."""
    attribute = LaunchAttribute()
    attribute.id = 6
    attribute.value.value = 1
    return attribute


class Function:
    """A kernel of a loaded module; keeps its module's bytes alive."""

    def __init__(self, handle: ctypes.c_void_p, module: ctypes.c_void_p) -> None:
        self.handle = handle
        self.module = module


class Driver:
    """libcuda with error checking; every method acts on the calling thread's current context."""

    def __init__(self) -> None:
        try:
            self.lib = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise Unsupported(f"The CUDA driver library is not on this machine ({error}).") from error
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: object) -> None:
        """Call a driver function; DriverError with the driver's own words unless it succeeds."""
        code = getattr(self.lib, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorString(code, ctypes.byref(text))
            words = text.value.decode() if text.value else "no description"
            raise DriverError(f"{name} failed with code {code}: {words}.")

    def attribute(self, device: int, name: str) -> int:
        """A device attribute by its name in ATTRIBUTES."""
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), ATTRIBUTES[name], device)
        return value.value

    def version(self) -> int:
        """CUDA version of the driver, 13000 for 13.0."""
        value = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(value))
        return value.value

    def load(self, image: bytes, name: str) -> Function:
        """Load a cubin (or PTX) into the current context and take one kernel from it."""
        module, handle = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        self.call("cuModuleGetFunction", ctypes.byref(handle), module, name.encode())
        return Function(handle, module)

    def function_attribute(self, function: Function, name: str) -> int:
        """Registers, shared or local bytes of a loaded kernel."""
        value = ctypes.c_int()
        self.call("cuFuncGetAttribute", ctypes.byref(value), FUNCTION_ATTRIBUTES[name], function.handle)
        return value.value

    def resident_blocks(self, function: Function, block: int) -> int:
        """Blocks of this size that one multiprocessor holds at once."""
        count = ctypes.c_int()
        self.call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            ctypes.byref(count),
            function.handle,
            block,
            ctypes.c_size_t(0),
        )
        return count.value

    def launch(
        self,
        function: Function,
        parameters: ctypes.Structure,
        *,
        grid: tuple[int, int],
        block: int,
        stream: int,
        pdl: bool,
    ) -> None:
        """Launch with one by-value structure as the only argument."""
        config = LaunchConfig(grid[0], grid[1], 1, block, 1, 1, 0, stream)
        if pdl:
            attribute = pdl_attribute()
            config.attributes = ctypes.pointer(attribute)
            config.attribute_count = 1
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(parameters))
        self.call("cuLaunchKernelEx", ctypes.byref(config), function.handle, arguments, None)

    def register(self, address: int, size: int) -> int:
        """Pin host memory and map it into the device; returns the *device* alias of its address."""
        pointer = ctypes.c_void_p(address)
        self.call("cuMemHostRegister_v2", pointer, ctypes.c_size_t(size), REGISTER_PORTABLE_DEVICEMAP)
        alias = ctypes.c_uint64()
        self.call("cuMemHostGetDevicePointer_v2", ctypes.byref(alias), pointer, 0)
        return alias.value

    def unregister(self, address: int) -> None:
        """Undo :meth:`register`."""
        self.call("cuMemHostUnregister", ctypes.c_void_p(address))

    def allocate(self, size: int) -> int:
        """Device memory of its own allocation, so that it can be exported to peers."""
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer.value

    def free(self, pointer: int) -> None:
        """Free :meth:`allocate`'s memory."""
        self.call("cuMemFree_v2", ctypes.c_uint64(pointer))

    def fill(self, pointer: int, word: int, count: int) -> None:
        """Set ``count`` 32-bit words of device memory and wait for it."""
        self.call("cuMemsetD32_v2", ctypes.c_uint64(pointer), ctypes.c_uint(word), ctypes.c_size_t(count))
        self.call("cuCtxSynchronize")

    def export(self, pointer: int) -> bytes:
        """Handle with which another process on this host opens device memory."""
        handle = (ctypes.c_byte * 64)()
        self.call("cuIpcGetMemHandle", handle, ctypes.c_uint64(pointer))
        return bytes(handle)

    def open(self, handle: bytes) -> int:
        """Map a peer's exported memory; enables peer access."""

        class Handle(ctypes.Structure):
            _fields_ = (("reserved", ctypes.c_byte * 64),)

        value = Handle.from_buffer_copy(handle)
        pointer = ctypes.c_uint64()
        self.call("cuIpcOpenMemHandle_v2", ctypes.byref(pointer), value, 1)
        return pointer.value

    def close(self, pointer: int) -> None:
        """Unmap :meth:`open`'s memory."""
        self.call("cuIpcCloseMemHandle", ctypes.c_uint64(pointer))

    def can_access_peer(self, device: int, peer: int) -> bool:
        """Whether the driver says that ``device`` reaches ``peer``'s memory."""
        value = ctypes.c_int()
        self.call("cuDeviceCanAccessPeer", ctypes.byref(value), device, peer)
        return bool(value.value)


@cache
def driver() -> Driver:
    """The driver, initialised once a process."""
    return Driver()
