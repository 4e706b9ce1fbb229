// Stands in for CUDA's header where no toolkit is installed: TensorRT's headers need these two names and nothing else of it.
// Searched after all other folders, so that a toolkit's own comes first.
#pragma once

typedef struct CUevent_st *cudaEvent_t;
typedef struct CUstream_st *cudaStream_t;
