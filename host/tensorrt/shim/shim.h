// What Ringcall asks of TensorRT, in plain C: the border between the Rust crate and `shim.cpp`, which is compiled on the
// user's machine against the user's headers. Nothing of NVIDIA's is in this file.
//
// Every call that can fail returns a `ringcall_trt_status`; a caller's `why` then says more, as far as the shim itself knows.
// The library's own words go to the logger. No C++ exception leaves a call. Handles are opaque, never null after OK, and
// freed by their `_free` alone; null is freed without harm. Text handed out lives as long as the handle it came from.
//
// Threads: the logger is called from any thread, several at once. A build, a plan and a context are for one thread at a
// time; a library, a runtime and an engine are for any number.

#ifndef RINGCALL_TRT_SHIM_H
#define RINGCALL_TRT_SHIM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Changes with every change of this file. A shim of another number is not used.
#define RINGCALL_TRT_ABI 1u

// As many dimensions as TensorRT's own `Dims` has.
#define RINGCALL_TRT_MOST_DIMS 8u
#define RINGCALL_TRT_WHY_BYTES 2048u

typedef enum ringcall_trt_status {
    RINGCALL_TRT_OK = 0,
    // An argument that cannot be: a name that is not there, too many dimensions.
    RINGCALL_TRT_INVALID = 1,
    // The library said no; the logger has its words.
    RINGCALL_TRT_REFUSED = 2,
    // This TensorRT does not have it.
    RINGCALL_TRT_UNSUPPORTED = 3,
    // A C++ exception, most likely for want of memory.
    RINGCALL_TRT_EXCEPTION = 4,
} ringcall_trt_status;

typedef enum ringcall_trt_product {
    RINGCALL_TRT_ENTERPRISE = 0,
    RINGCALL_TRT_RTX = 1,
} ringcall_trt_product;

// Of the headers that the shim was compiled with.
typedef struct ringcall_trt_version {
    int32_t product;
    int32_t major;
    int32_t minor;
    int32_t patch;
    int32_t build;
} ringcall_trt_version;

// Terminated, cut to the buffer.
typedef struct ringcall_trt_why {
    char text[RINGCALL_TRT_WHY_BYTES];
} ringcall_trt_why;

// Severities are TensorRT's: 0 internal error, 1 error, 2 warning, 3 info, 4 verbose.
typedef void (*ringcall_trt_log)(void *user, int32_t severity, const char *text);

// The factories, from the library's symbol table; those that it lacks are null.
typedef struct ringcall_trt_factories {
    void *(*builder)(void *logger, int32_t version);
    void *(*runtime)(void *logger, int32_t version);
    void *(*parser)(void *network, void *logger, int version);
} ringcall_trt_factories;

// An element type as TensorRT numbers it (`DataType`), and a shape; -1 is a dimension that is open.
typedef struct ringcall_trt_tensor {
    const char *name;
    int32_t type;
    // 1 where the tensor's values are wanted on the host (a shape tensor).
    int32_t on_host;
    // 1 where elements lie row-major, packed.
    int32_t linear;
    int32_t is_output;
    uint32_t rank;
    int64_t dims[RINGCALL_TRT_MOST_DIMS];
    // The names of dimensions of a parsed network's inputs; null without one.
    const char *symbols[RINGCALL_TRT_MOST_DIMS];
} ringcall_trt_tensor;

// Bits for `ringcall_trt_build_flags`.
#define RINGCALL_TRT_FLAG_F16 1u
#define RINGCALL_TRT_FLAG_BF16 2u
#define RINGCALL_TRT_FLAG_INT8 4u
#define RINGCALL_TRT_FLAG_TF32 8u
#define RINGCALL_TRT_FLAG_VERSION_COMPATIBLE 16u
#define RINGCALL_TRT_FLAG_EXCLUDE_LEAN_RUNTIME 32u

typedef struct ringcall_trt_library ringcall_trt_library;
typedef struct ringcall_trt_build ringcall_trt_build;
typedef struct ringcall_trt_plan ringcall_trt_plan;
typedef struct ringcall_trt_runtime ringcall_trt_runtime;
typedef struct ringcall_trt_engine ringcall_trt_engine;
typedef struct ringcall_trt_context ringcall_trt_context;

uint32_t ringcall_trt_abi(void);
ringcall_trt_version ringcall_trt_headers(void);

// The logger is the process's for good, since TensorRT keeps the first one it is given: so is what `user` points to. There
// is no `_free`.
int32_t ringcall_trt_library_open(const ringcall_trt_factories *factories, ringcall_trt_log log, void *user,
                                  ringcall_trt_library **out, ringcall_trt_why *why);

// Parses an ONNX file in memory. `flags` are needed now: some make another network. The bytes are not needed afterwards.
int32_t ringcall_trt_build_parse(ringcall_trt_library *library, const void *onnx, uint64_t bytes, uint32_t flags,
                                 ringcall_trt_build **out, ringcall_trt_why *why);
void ringcall_trt_build_free(ringcall_trt_build *build);
uint32_t ringcall_trt_build_inputs(const ringcall_trt_build *build);
uint32_t ringcall_trt_build_outputs(const ringcall_trt_build *build);
// Numbered from 0, inputs first.
int32_t ringcall_trt_build_tensor(const ringcall_trt_build *build, uint32_t index, ringcall_trt_tensor *out,
                                  ringcall_trt_why *why);
// Gives input `name` its sizes: those equal in all three become fixed, the others make an optimisation profile.
int32_t ringcall_trt_build_shape(ringcall_trt_build *build, const char *name, uint32_t rank, const int64_t *smallest,
                                 const int64_t *optimum, const int64_t *largest, ringcall_trt_why *why);
int32_t ringcall_trt_build_workspace(ringcall_trt_build *build, uint64_t bytes, ringcall_trt_why *why);
// 0 to 5, as TensorRT's builder optimisation level.
int32_t ringcall_trt_build_effort(ringcall_trt_build *build, int32_t level, ringcall_trt_why *why);
// Compute capabilities as ten times major plus minor, such as 86; TensorRT-RTX alone builds for others than the GPU there is.
int32_t ringcall_trt_build_capabilities(ringcall_trt_build *build, const int32_t *capabilities, uint32_t count,
                                        ringcall_trt_why *why);
int32_t ringcall_trt_build_run(ringcall_trt_build *build, ringcall_trt_plan **out, ringcall_trt_why *why);
const void *ringcall_trt_plan_data(const ringcall_trt_plan *plan);
uint64_t ringcall_trt_plan_bytes(const ringcall_trt_plan *plan);
void ringcall_trt_plan_free(ringcall_trt_plan *plan);

int32_t ringcall_trt_runtime_new(ringcall_trt_library *library, ringcall_trt_runtime **out, ringcall_trt_why *why);
void ringcall_trt_runtime_free(ringcall_trt_runtime *runtime);
// A version-compatible plan may carry code for the host, which runs only if `host_code` is 1. The plan is not needed
// afterwards. The runtime outlives the engine, the engine its contexts.
int32_t ringcall_trt_engine_load(ringcall_trt_runtime *runtime, const void *plan, uint64_t bytes, int32_t host_code,
                                 ringcall_trt_engine **out, ringcall_trt_why *why);
void ringcall_trt_engine_free(ringcall_trt_engine *engine);
uint32_t ringcall_trt_engine_tensors(const ringcall_trt_engine *engine);
int32_t ringcall_trt_engine_tensor(const ringcall_trt_engine *engine, uint32_t index, ringcall_trt_tensor *out,
                                   ringcall_trt_why *why);
// What the first profile allows input `name`; `which` is 0 smallest, 1 optimum, 2 largest. Writes the rank and that many sizes.
int32_t ringcall_trt_engine_profile(const ringcall_trt_engine *engine, const char *name, int32_t which, uint32_t *rank,
                                    int64_t *dims, ringcall_trt_why *why);
// Bytes of device memory that a context takes for itself.
uint64_t ringcall_trt_engine_memory(const ringcall_trt_engine *engine);

// The calls below work on the CUDA device that is current on the calling thread.
int32_t ringcall_trt_context_new(ringcall_trt_engine *engine, ringcall_trt_context **out, ringcall_trt_why *why);
void ringcall_trt_context_free(ringcall_trt_context *context);
int32_t ringcall_trt_context_input_shape(ringcall_trt_context *context, const char *name, uint32_t rank,
                                         const int64_t *dims, ringcall_trt_why *why);
// The shape of any tensor, once all inputs have theirs; -1 where it depends on the data.
int32_t ringcall_trt_context_shape(const ringcall_trt_context *context, const char *name, uint32_t *rank, int64_t *dims,
                                   ringcall_trt_why *why);
// Device memory, aligned to 256 bytes, of the tensor's size; it outlives every run.
int32_t ringcall_trt_context_address(ringcall_trt_context *context, const char *name, uint64_t address,
                                     ringcall_trt_why *why);
// `stream` is a `cudaStream_t`, which may be capturing.
int32_t ringcall_trt_context_enqueue(ringcall_trt_context *context, void *stream, ringcall_trt_why *why);

#ifdef __cplusplus
}
#endif

#endif
