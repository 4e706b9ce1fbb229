/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The numbers of the RPC wire format and of slot flags. A test of ringcall-c compares them with ringcall-wire. */
#ifndef CUDAQ_REALTIME_RPC_WIRE_FORMAT_H
#define CUDAQ_REALTIME_RPC_WIRE_FORMAT_H

/* First word of a request, and of a response. */
#define CUDAQ_RPC_MAGIC_REQUEST 0x43555152u
#define CUDAQ_RPC_MAGIC_RESPONSE 0x43555153u
/* Bytes of either header. */
#define CUDAQ_RPC_HEADER_SIZE 24u

/* Response flag of a slot whose request was accepted and whose response is still to come. */
#define CUDAQ_TX_FLAG_IN_FLIGHT 0xEEEEEEEEEEEEEEEEULL
/* Bits 63..48 of the response flag of a slot that failed; bits 15..0 hold the error's number. */
#define CUDAQ_TX_FLAG_ERROR_TAG 0xDEADULL

/* The status by which a device handler asks for its follow-up graph. */
#define CUDAQ_DISPATCH_STATUS_TRIGGER_GRAPH 0x12A6E5

/*
 * Negative response statuses are the protocol's; positive ones belong to handlers; 0 is success. The reference clears a
 * bad request without any response; this library answers with one of these.
 */
#define RINGCALL_STATUS_BAD_FLAG (-1)
#define RINGCALL_STATUS_BAD_MAGIC (-2)
#define RINGCALL_STATUS_ARG_TOO_LONG (-3)
#define RINGCALL_STATUS_UNKNOWN_FUNCTION (-4)
#define RINGCALL_STATUS_WRONG_MODE (-5)
#define RINGCALL_STATUS_SCHEMA_MISMATCH (-6)
#define RINGCALL_STATUS_RESULT_TOO_LONG (-7)
#define RINGCALL_STATUS_HANDLER_PANIC (-8)
#define RINGCALL_STATUS_LAUNCH_FAILED (-9)
#define RINGCALL_STATUS_TIMED_OUT (-10)
#define RINGCALL_STATUS_SHUTTING_DOWN (-11)
#define RINGCALL_STATUS_ABANDONED (-12)
#define RINGCALL_STATUS_NO_WORKER (-13)
#define RINGCALL_STATUS_BACKPRESSURE (-14)
#define RINGCALL_STATUS_ENGINE_FAILED (-15)
#define RINGCALL_STATUS_BAD_PAYLOAD (-16)

#ifndef __cplusplus
#include <stdint.h>

/* What C++ programs find in namespace cudaq::realtime (dispatch_kernel_launch.h), for C. */
#define RPC_MAGIC_REQUEST CUDAQ_RPC_MAGIC_REQUEST
#define RPC_MAGIC_RESPONSE CUDAQ_RPC_MAGIC_RESPONSE

/* Request header: 24 bytes, little-endian, at any alignment. */
typedef struct __attribute__((packed)) RPCHeader {
  uint32_t magic;         /* CUDAQ_RPC_MAGIC_REQUEST */
  uint32_t function_id;   /* FNV-1a of the function's name */
  uint32_t arg_len;       /* payload bytes after this header */
  uint32_t request_id;    /* the caller's number, echoed */
  uint64_t ptp_timestamp; /* the caller's send time, echoed; 0 if unused */
} RPCHeader;

/* Response header: 24 bytes, little-endian, at any alignment. */
typedef struct __attribute__((packed)) RPCResponse {
  uint32_t magic;         /* CUDAQ_RPC_MAGIC_RESPONSE */
  int32_t status;         /* 0 success */
  uint32_t result_len;    /* payload bytes after this header */
  uint32_t request_id;    /* the request's */
  uint64_t ptp_timestamp; /* the request's */
} RPCResponse;
#endif

#endif
