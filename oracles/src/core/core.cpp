// PyMatching's C++ core behind three functions, called as directly as it can be. The clock runs around its calls alone.

#include <chrono>
#include <cstring>
#include <exception>
#include <vector>

#include "pymatching/sparse_blossom/driver/mwpm_decoding.h"
#include "pymatching/sparse_blossom/driver/user_graph.h"

namespace {

struct Core {
    pm::UserGraph graph;
    pm::Mwpm* mwpm;
    // Of one request, reused: the core takes 64-bit indices.
    std::vector<std::vector<uint64_t>> events;
};

void report(const std::exception& e, char* error, size_t size) {
    std::strncpy(error, e.what(), size - 1);
    error[size - 1] = 0;
}

}  // namespace

extern "C" {

struct CoreEdge {
    uint32_t u;
    uint32_t v;  // UINT32_MAX is the boundary
    double weight;
    uint64_t observables;
};

struct CoreAnswer {
    uint64_t ns;
    double weight;
    uint64_t observables;
};

void* ringcall_core_new(
    uint32_t detectors, uint32_t observables, const CoreEdge* edges, size_t count, char* error, size_t error_size) {
    try {
        auto core = std::make_unique<Core>(pm::UserGraph(detectors, observables), nullptr);
        for (size_t i = 0; i < count; i++) {
            const auto& e = edges[i];
            std::vector<size_t> flips;
            for (size_t o = 0; o < 64; o++)
                if (e.observables >> o & 1)
                    flips.push_back(o);
            if (e.v == UINT32_MAX)
                core->graph.add_or_merge_boundary_edge(e.u, flips, e.weight, -1);
            else
                core->graph.add_or_merge_edge(e.u, e.v, flips, e.weight, -1);
        }
        core->mwpm = &core->graph.get_mwpm();
        return core.release();
    } catch (const std::exception& e) {
        report(e, error, error_size);
        return nullptr;
    }
}

void ringcall_core_free(void* core) {
    delete static_cast<Core*>(core);
}

// Decodes `shots` shots in a row, the defects of shot i from offsets[i] to offsets[i + 1]; weights are summed, observables xored.
bool ringcall_core_decode(
    void* handle,
    const uint32_t* defects,
    const uint32_t* offsets,
    size_t shots,
    CoreAnswer* answer,
    char* error,
    size_t error_size) {
    auto& core = *static_cast<Core*>(handle);
    try {
        if (core.events.size() < shots)
            core.events.resize(shots);
        for (size_t i = 0; i < shots; i++)
            core.events[i].assign(defects + offsets[i], defects + offsets[i + 1]);
        auto& mwpm = *core.mwpm;
        pm::total_weight_int weight = 0;
        pm::obs_int observables = 0;
        auto begin = std::chrono::steady_clock::now();
        for (size_t i = 0; i < shots; i++) {
            auto result = pm::decode_detection_events_for_up_to_64_observables(mwpm, core.events[i], false);
            weight += result.weight;
            observables ^= result.obs_mask;
        }
        auto end = std::chrono::steady_clock::now();
        answer->ns = std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count();
        answer->weight = (double)weight / mwpm.flooder.graph.normalising_constant;
        answer->observables = observables;
        return true;
    } catch (const std::exception& e) {
        report(e, error, error_size);
        return false;
    }
}
}
