"""The words by which host code and build files speak of an architecture: a cheap first look at a file."""

from __future__ import annotations

__all__ = ["mentions"]

_SPELLED = (
    "sm =|sm >|sm <|sm !|SM =|SM >|SM <|SM !|sm_ |sm_version|SMVersion|smVersion|getSM()|arch =|arch >|arch <|arch !"
    "|(arch|arch_|ajor >|ajor =|ajor <|ajor !|ajor *|ajor_ |.major|apability|arch::Sm|is_major_v|arch=compute"
    "|sm_arch|gpu-architecture|CUDA_ARCH|(sm)|_sm)|.first >|.first =|kSM_|compute_"
)
_WORDS = tuple(_SPELLED.split("|"))
_BYTES = tuple(word.encode() for word in _WORDS)
_LARGE = 30_000  # bytes; larger files are mostly generated device code
_HOST = tuple(
    b"std:: cudaLaunch <<< cudaGetDevice cudaDeviceGet getSM arch::Sm apability mVersion cudaStream_t".split()
)


def mentions(data: bytes) -> bool:
    """Whether host code or build flags about an architecture may occur; each word is one search at memory speed."""
    if len(data) > _LARGE and not any(word in data for word in _HOST):
        return False
    return any(word in data for word in _BYTES)
