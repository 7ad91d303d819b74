"""The words by which host code and build files speak of an architecture: a cheap first look at a file."""

from __future__ import annotations

__all__ = ["mentions"]

_SPELLED = (
    "sm =|sm >|sm <|sm !|SM =|SM >|SM <|SM !|sm_ |sm_version|SMVersion|smVersion|getSM()|arch =|arch >|arch <|arch !"
    "|(arch|arch_|ajor >|ajor =|ajor <|ajor !|ajor *|ajor_ |.major|apability|arch::Sm|is_major_v|arch=compute"
    "|sm_arch|gpu-architecture|CUDA_ARCH|(sm)|_sm)|.first >|.first =|kSM_|compute_"
)
_WORDS = tuple(_SPELLED.encode().split(b"|"))
_STEMS = (b"sm", b"SM", b"arch", b"ajor", b"apability", b".first", b"compute_", b"CUDA_ARCH")
_BYTES = tuple(
    (stem, tuple(word for word in _WORDS if next((each for each in _STEMS if each in word), word) == stem))
    for stem in (*_STEMS, *(word for word in _WORDS if not any(each in word for each in _STEMS)))
)
"""The words by a part that they share: most files hold few of the parts, and are searched for no more."""
_LARGE = 30_000  # bytes; larger files are mostly generated device code
_HOST = tuple(
    b"std:: cudaLaunch <<< cudaGetDevice cudaDeviceGet getSM arch::Sm apability mVersion cudaStream_t".split()
)


def mentions(data: bytes) -> bool:
    """Whether host code or build flags about an architecture may occur; each word is one search at memory speed."""
    if len(data) > _LARGE and not any(word in data for word in _HOST):
        return False
    return any(stem in data and any(word in data for word in spelled) for stem, spelled in _BYTES)
