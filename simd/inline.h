/* TFT_INLINE: a small function in a header. A CUDA compiler compiles it for the CPU and the GPU. */
#ifndef TFT_INLINE_H
#define TFT_INLINE_H

#if defined __CUDACC__
#define TFT_INLINE static inline __host__ __device__
#else
#define TFT_INLINE static inline
#endif

#endif
