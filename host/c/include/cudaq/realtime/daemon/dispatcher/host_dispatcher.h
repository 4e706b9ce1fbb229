/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The host dispatcher is in graph_launch_engine.h; this name is kept for programs that include it. */
#ifndef CUDAQ_REALTIME_HOST_DISPATCHER_H
#define CUDAQ_REALTIME_HOST_DISPATCHER_H
#include "cudaq/realtime/daemon/dispatcher/graph_launch_engine.h"
#endif
