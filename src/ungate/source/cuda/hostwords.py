"""The words by which host code and build files speak of an architecture: a cheap first look at a file."""

from __future__ import annotations

import re

from ungate.source.matcher import matcher

__all__ = ["mentions"]

_SPELLED = (
    "sm =|sm >|sm <|sm !|SM =|SM >|SM <|SM !|sm_ |sm_version|SMVersion|smVersion|getSM()|arch =|arch >|arch <|arch !"
    "|(arch|arch_|ajor >|ajor =|ajor <|ajor !|ajor *|ajor_ |.major|apability|arch::Sm|is_major_v|arch=compute"
    "|sm_arch|gpu-architecture|CUDA_ARCH|(sm)|_sm)|.first >|.first =|kSM_|compute_"
)
_WORDS = "|".join(map(re.escape, _SPELLED.split("|")))
_LARGE = 30_000  # bytes; larger files are mostly generated device code
_HOST = "std::|cudaLaunch|<<<|cudaGetDevice|cudaDeviceGet|getSM|arch::Sm|apability|mVersion|cudaStream_t"


def mentions(data: bytes) -> bool:
    """Whether host code or build flags about an architecture may occur."""
    if len(data) > _LARGE and matcher(_HOST).search(data) is None:
        return False
    return matcher(_WORDS).search(data) is not None
