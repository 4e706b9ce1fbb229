/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The kernel types are in cudaq_realtime.h; this name is kept for programs that include it. */
#ifndef CUDAQ_REALTIME_KERNEL_TYPES_H
#define CUDAQ_REALTIME_KERNEL_TYPES_H
#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"
#endif
