// `shim.h` over TensorRT's C++ interface: TensorRT 10 and 11, TensorRT-RTX 1. Compiled on the user's machine, against the
// user's headers, so that classes have the layout of the library that is there.

#include "shim.h"

#include <NvInfer.h>
#include <NvOnnxParser.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>

#ifdef TRT_MAJOR_RTX
constexpr int32_t PRODUCT = RINGCALL_TRT_RTX;
#else
constexpr int32_t PRODUCT = RINGCALL_TRT_ENTERPRISE;
#if NV_TENSORRT_MAJOR < 10
#error "TensorRT 10 or later is needed"
#endif
#endif

// Whether a builder may choose the precision of layers. TensorRT 11 took that out: networks are strongly typed. So are those
// of TensorRT-RTX, which refuses the flags where its headers still have them.
#ifdef TRT_MAJOR_RTX
#define WEAKLY_TYPED 0
#else
#define WEAKLY_TYPED (NV_TENSORRT_MAJOR < 11)
#endif

#define PUBLIC extern "C" __attribute__((visibility("default")))

using namespace nvinfer1;

static_assert(RINGCALL_TRT_MOST_DIMS == Dims::MAX_DIMS, "shim.h has as many dimensions as TensorRT");

namespace {

class Logger final : public ILogger {
public:
    Logger(ringcall_trt_log log, void *user) : mLog(log), mUser(user) {}

    void log(Severity severity, AsciiChar const *text) noexcept override {
        mLog(mUser, static_cast<int32_t>(severity), text == nullptr ? "" : text);
    }

private:
    ringcall_trt_log mLog;
    void *mUser;
};

int32_t say(ringcall_trt_why *why, int32_t status, char const *text) noexcept {
    if (why != nullptr) {
        std::snprintf(why->text, sizeof why->text, "%s", text);
    }
    return status;
}

// Runs a call's body; an exception ends here.
template <typename Body> int32_t guarded(ringcall_trt_why *why, Body body) noexcept {
    say(why, RINGCALL_TRT_OK, "");
    try {
        return body();
    } catch (std::exception const &error) {
        return say(why, RINGCALL_TRT_EXCEPTION, error.what());
    } catch (...) {
        return say(why, RINGCALL_TRT_EXCEPTION, "an exception of no known type");
    }
}

// What a factory gave, if it can be an object. The lean runtime of 11.4 gives 0x228 instead of null where there is no CUDA
// driver: a null that was cast to a base class.
template <typename T> std::unique_ptr<T> made(void *raw) noexcept {
    return std::unique_ptr<T>(reinterpret_cast<uintptr_t>(raw) < 4096 ? nullptr : static_cast<T *>(raw));
}

bool dims_of(uint32_t rank, int64_t const *sizes, Dims &out) noexcept {
    if (rank > RINGCALL_TRT_MOST_DIMS || (rank > 0 && sizes == nullptr)) {
        return false;
    }
    out.nbDims = static_cast<int32_t>(rank);
    std::copy_n(sizes, rank, out.d);
    return true;
}

int32_t dims_to(Dims const &dims, uint32_t *rank, int64_t *sizes, ringcall_trt_why *why) noexcept {
    if (dims.nbDims < 0 || dims.nbDims > Dims::MAX_DIMS) {
        return say(why, RINGCALL_TRT_REFUSED, "its shape is not known");
    }
    *rank = static_cast<uint32_t>(dims.nbDims);
    std::copy_n(dims.d, dims.nbDims, sizes);
    return RINGCALL_TRT_OK;
}

} // namespace

struct ringcall_trt_library {
    ringcall_trt_factories factories;
    Logger logger;
};

struct ringcall_trt_build {
    // Destroyed from the last to the first.
    std::unique_ptr<IBuilder> builder;
    std::unique_ptr<INetworkDefinition> network;
    std::unique_ptr<nvonnxparser::IParser> parser;
    std::unique_ptr<IBuilderConfig> config;
    // The builder's own; null while every dimension is fixed.
    IOptimizationProfile *profile = nullptr;

    ITensor *input(char const *name) const noexcept {
        for (int32_t i = 0; name != nullptr && i < network->getNbInputs(); ++i) {
            ITensor *tensor = network->getInput(i);
            if (std::strcmp(tensor->getName(), name) == 0) {
                return tensor;
            }
        }
        return nullptr;
    }
};

struct ringcall_trt_plan {
    std::unique_ptr<IHostMemory> memory;
};

struct ringcall_trt_runtime {
    std::unique_ptr<IRuntime> runtime;
};

struct ringcall_trt_engine {
    std::unique_ptr<ICudaEngine> engine;
};

struct ringcall_trt_context {
    std::unique_ptr<IExecutionContext> context;
};

PUBLIC uint32_t ringcall_trt_abi(void) { return RINGCALL_TRT_ABI; }

PUBLIC ringcall_trt_version ringcall_trt_headers(void) {
    return {PRODUCT, NV_TENSORRT_MAJOR, NV_TENSORRT_MINOR, NV_TENSORRT_PATCH, NV_TENSORRT_BUILD};
}

PUBLIC int32_t ringcall_trt_library_open(ringcall_trt_factories const *factories, ringcall_trt_log log, void *user,
                                         ringcall_trt_library **out, ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t {
        if (factories == nullptr || log == nullptr || out == nullptr) {
            return say(why, RINGCALL_TRT_INVALID, "a null pointer");
        }
        *out = new ringcall_trt_library{*factories, Logger{log, user}};
        return RINGCALL_TRT_OK;
    });
}

// ---- building ----

namespace {

void set(IBuilderConfig &config, BuilderFlag flag, bool on) noexcept {
    if (on) {
        config.setFlag(flag);
    } else {
        config.clearFlag(flag);
    }
}

// The parser's complaints, the first few.
std::string complaints(nvonnxparser::IParser const &parser) {
    std::string text;
    int const count = parser.getNbErrors();
    for (int i = 0; i < std::min(count, 4); ++i) {
        nvonnxparser::IParserError const *error = parser.getError(i);
        if (!text.empty()) {
            text += "; ";
        }
        text += error->desc();
        if (error->node() >= 0) {
            text += " (node " + std::to_string(error->node());
            if (error->nodeName() != nullptr && *error->nodeName() != '\0') {
                text += std::string(" `") + error->nodeName() + "`";
            }
            if (error->nodeOperator() != nullptr && *error->nodeOperator() != '\0') {
                text += std::string(", operator ") + error->nodeOperator();
            }
            text += ")";
        }
    }
    return text;
}

} // namespace

PUBLIC int32_t ringcall_trt_build_parse(ringcall_trt_library *library, void const *onnx, uint64_t bytes, uint32_t flags,
                                        ringcall_trt_build **out, ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t {
        if (library->factories.builder == nullptr || library->factories.parser == nullptr) {
            return say(why, RINGCALL_TRT_UNSUPPORTED, "this library has no builder or no ONNX parser");
        }
        bool const weakly = (flags & (RINGCALL_TRT_FLAG_F16 | RINGCALL_TRT_FLAG_BF16 | RINGCALL_TRT_FLAG_INT8)) != 0;
        if (weakly && !WEAKLY_TYPED) {
            return say(why, RINGCALL_TRT_UNSUPPORTED,
                       "networks are strongly typed in this release: the precision is the model's own, so export it in "
                       "the one that is wanted");
        }
        auto build = std::make_unique<ringcall_trt_build>();
        build->builder = made<IBuilder>(library->factories.builder(&library->logger, NV_TENSORRT_VERSION));
        if (!build->builder) {
            return say(why, RINGCALL_TRT_REFUSED, "no builder");
        }
        NetworkDefinitionCreationFlags creation = 0;
#if WEAKLY_TYPED
        if (!weakly) {
            creation |= 1U << static_cast<uint32_t>(NetworkDefinitionCreationFlag::kSTRONGLY_TYPED);
        }
#endif
        build->network.reset(build->builder->createNetworkV2(creation));
        build->config.reset(build->builder->createBuilderConfig());
        if (!build->network || !build->config) {
            return say(why, RINGCALL_TRT_REFUSED, "no network");
        }
        build->parser = made<nvonnxparser::IParser>(
            library->factories.parser(build->network.get(), &library->logger, NV_ONNX_PARSER_VERSION));
        if (!build->parser) {
            return say(why, RINGCALL_TRT_REFUSED, "no ONNX parser");
        }
        IBuilderConfig &config = *build->config;
#if WEAKLY_TYPED
        set(config, BuilderFlag::kFP16, (flags & RINGCALL_TRT_FLAG_F16) != 0);
        set(config, BuilderFlag::kBF16, (flags & RINGCALL_TRT_FLAG_BF16) != 0);
        set(config, BuilderFlag::kINT8, (flags & RINGCALL_TRT_FLAG_INT8) != 0);
#endif
        set(config, BuilderFlag::kTF32, (flags & RINGCALL_TRT_FLAG_TF32) != 0);
        set(config, BuilderFlag::kVERSION_COMPATIBLE, (flags & RINGCALL_TRT_FLAG_VERSION_COMPATIBLE) != 0);
        set(config, BuilderFlag::kEXCLUDE_LEAN_RUNTIME, (flags & RINGCALL_TRT_FLAG_EXCLUDE_LEAN_RUNTIME) != 0);
        if (!build->parser->parse(onnx, static_cast<size_t>(bytes))) {
            return say(why, RINGCALL_TRT_REFUSED, complaints(*build->parser).c_str());
        }
        *out = build.release();
        return RINGCALL_TRT_OK;
    });
}

PUBLIC void ringcall_trt_build_free(ringcall_trt_build *build) { delete build; }

PUBLIC uint32_t ringcall_trt_build_inputs(ringcall_trt_build const *build) {
    return static_cast<uint32_t>(std::max(0, build->network->getNbInputs()));
}

PUBLIC uint32_t ringcall_trt_build_outputs(ringcall_trt_build const *build) {
    return static_cast<uint32_t>(std::max(0, build->network->getNbOutputs()));
}

PUBLIC int32_t ringcall_trt_build_tensor(ringcall_trt_build const *build, uint32_t index, ringcall_trt_tensor *out,
                                         ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t {
        uint32_t const inputs = ringcall_trt_build_inputs(build);
        bool const is_output = index >= inputs;
        if (is_output && index - inputs >= ringcall_trt_build_outputs(build)) {
            return say(why, RINGCALL_TRT_INVALID, "no tensor of that number");
        }
        ITensor const *tensor = is_output ? build->network->getOutput(static_cast<int32_t>(index - inputs))
                                          : build->network->getInput(static_cast<int32_t>(index));
        *out = {};
        out->name = tensor->getName();
        out->type = static_cast<int32_t>(tensor->getType());
        out->on_host = tensor->isShapeTensor() ? 1 : 0;
        out->linear = 1;
        out->is_output = is_output ? 1 : 0;
        Dims const dims = tensor->getDimensions();
        int32_t const status = dims_to(dims, &out->rank, out->dims, why);
        for (uint32_t axis = 0; status == RINGCALL_TRT_OK && !is_output && axis < out->rank; ++axis) {
            out->symbols[axis] = tensor->getDimensionName(static_cast<int32_t>(axis));
        }
        return status;
    });
}

PUBLIC int32_t ringcall_trt_build_shape(ringcall_trt_build *build, char const *name, uint32_t rank,
                                        int64_t const *smallest, int64_t const *optimum, int64_t const *largest,
                                        ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t {
        ITensor *tensor = build->input(name);
        Dims low{};
        Dims middle{};
        Dims high{};
        if (tensor == nullptr || !dims_of(rank, smallest, low) || !dims_of(rank, optimum, middle) ||
            !dims_of(rank, largest, high) || tensor->getDimensions().nbDims != low.nbDims) {
            return say(why, RINGCALL_TRT_INVALID, "no input of that name and rank");
        }
        Dims shape = low;
        bool open = false;
        for (int32_t axis = 0; axis < low.nbDims; ++axis) {
            if (low.d[axis] != high.d[axis]) {
                shape.d[axis] = -1;
                open = true;
            }
        }
        tensor->setDimensions(shape);
        if (!open) {
            return RINGCALL_TRT_OK;
        }
        if (build->profile == nullptr) {
            build->profile = build->builder->createOptimizationProfile();
        }
        bool const taken = build->profile != nullptr &&
                           build->profile->setDimensions(name, OptProfileSelector::kMIN, low) &&
                           build->profile->setDimensions(name, OptProfileSelector::kOPT, middle) &&
                           build->profile->setDimensions(name, OptProfileSelector::kMAX, high);
        return taken ? RINGCALL_TRT_OK : say(why, RINGCALL_TRT_REFUSED, "the profile does not take these sizes");
    });
}

PUBLIC int32_t ringcall_trt_build_workspace(ringcall_trt_build *build, uint64_t bytes, ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t {
        build->config->setMemoryPoolLimit(MemoryPoolType::kWORKSPACE, static_cast<size_t>(bytes));
        return RINGCALL_TRT_OK;
    });
}

PUBLIC int32_t ringcall_trt_build_effort(ringcall_trt_build *build, int32_t level, ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t {
        build->config->setBuilderOptimizationLevel(level);
        return build->config->getBuilderOptimizationLevel() == level
                   ? RINGCALL_TRT_OK
                   : say(why, RINGCALL_TRT_REFUSED, "no such optimisation level");
    });
}

PUBLIC int32_t ringcall_trt_build_capabilities(ringcall_trt_build *build, int32_t const *capabilities, uint32_t count,
                                               ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t {
#ifdef TRT_MAJOR_RTX
        if (!build->config->setNbComputeCapabilities(static_cast<int32_t>(count))) {
            return say(why, RINGCALL_TRT_REFUSED, "so many compute capabilities are not taken");
        }
        for (uint32_t i = 0; i < count; ++i) {
            if (!build->config->setComputeCapability(static_cast<ComputeCapability>(capabilities[i]),
                                                     static_cast<int32_t>(i))) {
                std::string const text = "compute capability " + std::to_string(capabilities[i] / 10) + "." +
                                         std::to_string(capabilities[i] % 10) + " is not taken";
                return say(why, RINGCALL_TRT_REFUSED, text.c_str());
            }
        }
        return RINGCALL_TRT_OK;
#else
        (void)build;
        (void)capabilities;
        (void)count;
        return say(why, RINGCALL_TRT_UNSUPPORTED,
                   "TensorRT builds for the GPU that is there; TensorRT-RTX alone builds for others");
#endif
    });
}

PUBLIC int32_t ringcall_trt_build_run(ringcall_trt_build *build, ringcall_trt_plan **out, ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t {
        if (build->profile != nullptr &&
            (!build->profile->isValid() || build->config->addOptimizationProfile(build->profile) < 0)) {
            return say(why, RINGCALL_TRT_REFUSED, "the optimisation profile is not valid");
        }
        auto plan = std::make_unique<ringcall_trt_plan>();
        plan->memory.reset(build->builder->buildSerializedNetwork(*build->network, *build->config));
        if (!plan->memory) {
            return say(why, RINGCALL_TRT_REFUSED, "");
        }
        *out = plan.release();
        return RINGCALL_TRT_OK;
    });
}

PUBLIC void const *ringcall_trt_plan_data(ringcall_trt_plan const *plan) { return plan->memory->data(); }

PUBLIC uint64_t ringcall_trt_plan_bytes(ringcall_trt_plan const *plan) { return plan->memory->size(); }

PUBLIC void ringcall_trt_plan_free(ringcall_trt_plan *plan) { delete plan; }

// ---- running ----

PUBLIC int32_t ringcall_trt_runtime_new(ringcall_trt_library *library, ringcall_trt_runtime **out,
                                        ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t {
        if (library->factories.runtime == nullptr) {
            return say(why, RINGCALL_TRT_UNSUPPORTED, "this library has no runtime");
        }
        auto runtime = std::make_unique<ringcall_trt_runtime>();
        runtime->runtime = made<IRuntime>(library->factories.runtime(&library->logger, NV_TENSORRT_VERSION));
        if (!runtime->runtime) {
            return say(why, RINGCALL_TRT_REFUSED, "");
        }
        *out = runtime.release();
        return RINGCALL_TRT_OK;
    });
}

PUBLIC void ringcall_trt_runtime_free(ringcall_trt_runtime *runtime) { delete runtime; }

PUBLIC int32_t ringcall_trt_engine_load(ringcall_trt_runtime *runtime, void const *plan, uint64_t bytes,
                                        int32_t host_code, ringcall_trt_engine **out, ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t {
        if (host_code != 0) {
            runtime->runtime->setEngineHostCodeAllowed(true);
        }
        auto engine = std::make_unique<ringcall_trt_engine>();
        engine->engine.reset(runtime->runtime->deserializeCudaEngine(plan, static_cast<size_t>(bytes)));
        if (!engine->engine) {
            return say(why, RINGCALL_TRT_REFUSED, "");
        }
        *out = engine.release();
        return RINGCALL_TRT_OK;
    });
}

PUBLIC void ringcall_trt_engine_free(ringcall_trt_engine *engine) { delete engine; }

PUBLIC uint32_t ringcall_trt_engine_tensors(ringcall_trt_engine const *engine) {
    return static_cast<uint32_t>(std::max(0, engine->engine->getNbIOTensors()));
}

PUBLIC int32_t ringcall_trt_engine_tensor(ringcall_trt_engine const *handle, uint32_t index, ringcall_trt_tensor *out,
                                          ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t {
        if (index >= ringcall_trt_engine_tensors(handle)) {
            return say(why, RINGCALL_TRT_INVALID, "no tensor of that number");
        }
        ICudaEngine const &engine = *handle->engine;
        char const *name = engine.getIOTensorName(static_cast<int32_t>(index));
        *out = {};
        out->name = name;
        out->type = static_cast<int32_t>(engine.getTensorDataType(name));
        out->on_host = engine.getTensorLocation(name) == TensorLocation::kHOST || engine.isShapeInferenceIO(name) ? 1 : 0;
        out->linear = engine.getTensorFormat(name) == TensorFormat::kLINEAR ? 1 : 0;
        out->is_output = engine.getTensorIOMode(name) == TensorIOMode::kOUTPUT ? 1 : 0;
        return dims_to(engine.getTensorShape(name), &out->rank, out->dims, why);
    });
}

PUBLIC int32_t ringcall_trt_engine_profile(ringcall_trt_engine const *engine, char const *name, int32_t which,
                                           uint32_t *rank, int64_t *dims, ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t {
        if (which < 0 || which > 2) {
            return say(why, RINGCALL_TRT_INVALID, "0 is the smallest, 1 the optimum, 2 the largest");
        }
        return dims_to(engine->engine->getProfileShape(name, 0, static_cast<OptProfileSelector>(which)), rank, dims, why);
    });
}

PUBLIC uint64_t ringcall_trt_engine_memory(ringcall_trt_engine const *engine) {
#if !defined(TRT_MAJOR_RTX) && NV_TENSORRT_MAJOR == 10 && NV_TENSORRT_MINOR == 0
    return engine->engine->getDeviceMemorySize();
#else
    return static_cast<uint64_t>(std::max<int64_t>(0, engine->engine->getDeviceMemorySizeV2()));
#endif
}

PUBLIC int32_t ringcall_trt_context_new(ringcall_trt_engine *engine, ringcall_trt_context **out, ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t {
        auto context = std::make_unique<ringcall_trt_context>();
        context->context.reset(engine->engine->createExecutionContext());
        if (!context->context) {
            return say(why, RINGCALL_TRT_REFUSED, "");
        }
        *out = context.release();
        return RINGCALL_TRT_OK;
    });
}

PUBLIC void ringcall_trt_context_free(ringcall_trt_context *context) { delete context; }

PUBLIC int32_t ringcall_trt_context_input_shape(ringcall_trt_context *context, char const *name, uint32_t rank,
                                                int64_t const *dims, ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t {
        Dims shape{};
        if (!dims_of(rank, dims, shape)) {
            return say(why, RINGCALL_TRT_INVALID, "too many dimensions");
        }
        return context->context->setInputShape(name, shape) ? RINGCALL_TRT_OK : say(why, RINGCALL_TRT_REFUSED, "");
    });
}

PUBLIC int32_t ringcall_trt_context_shape(ringcall_trt_context const *context, char const *name, uint32_t *rank,
                                          int64_t *dims, ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t { return dims_to(context->context->getTensorShape(name), rank, dims, why); });
}

PUBLIC int32_t ringcall_trt_context_address(ringcall_trt_context *context, char const *name, uint64_t address,
                                            ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t {
        // The runtime's way to name device memory.
        void *memory = reinterpret_cast<void *>(static_cast<uintptr_t>(address));
        return context->context->setTensorAddress(name, memory) ? RINGCALL_TRT_OK : say(why, RINGCALL_TRT_REFUSED, "");
    });
}

PUBLIC int32_t ringcall_trt_context_enqueue(ringcall_trt_context *context, void *stream, ringcall_trt_why *why) {
    return guarded(why, [&]() -> int32_t {
        return context->context->enqueueV3(static_cast<cudaStream_t>(stream)) ? RINGCALL_TRT_OK
                                                                              : say(why, RINGCALL_TRT_REFUSED, "");
    });
}
