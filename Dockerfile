# The `tenon` command with the compilers for what it writes for processors and microcontrollers.
#
#   docker build -t tenon .
#   docker run --rm -v "$PWD:/work" tenon compile model.onnx -o model.cpp
#
# For GPUs give --build-arg BASE=nvidia/cuda:12.6.3-devel-ubuntu22.04 (any image of Debian or Ubuntu with nvcc);
# the command itself is static and needs nothing of its image.
#
# Docker was not at hand. In a bare Debian 12 (debootstrap, chroot) the first stage's packages and scripts/setup
# installed, the build was configured, and its library of the IR built; the rest was not run there.

ARG BASE=debian:12-slim

FROM debian:12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git python3-venv sudo \
  && rm -rf /var/lib/apt/lists/*
COPY . /source
WORKDIR /source
RUN scripts/setup --minimal
RUN bash -c 'source scripts/env.sh && tenon_enter_env && tenon_configure release -DBUILD_TESTING:BOOL=OFF \
  && tenon_build release tenon && cmake --build build && cmake --install build --prefix /installed --strip'

FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends cmake g++ gcc make gcc-arm-none-eabi \
  libnewlib-arm-none-eabi && rm -rf /var/lib/apt/lists/*
COPY --from=build /installed /usr/local
WORKDIR /work
ENTRYPOINT ["tenon"]
CMD ["--help"]
