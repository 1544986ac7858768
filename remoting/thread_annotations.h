// What threads must hold, for the analysis of Clang (-Wthread-safety), which .ci/check clang-tidy
// runs. Other compilers do not read it.
#pragma once

#if defined(__clang__)
#define THREAD_ANNOTATION(x) __attribute__((x))
#else
#define THREAD_ANNOTATION(x)
#endif

// Of classes: a mutex, and an object that holds one from its construction to its destruction.
#define CAPABILITY(name) THREAD_ANNOTATION(capability(name))
#define SCOPED_CAPABILITY THREAD_ANNOTATION(scoped_lockable)
// Of members: they are read and written with the mutex only.
#define GUARDED_BY(mutex) THREAD_ANNOTATION(guarded_by(mutex))
// Of functions: they are called with the mutex, or without it; they take it, or return it.
#define REQUIRES(...) THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRE(result) THREAD_ANNOTATION(try_acquire_capability(result))
#define RELEASE(...) THREAD_ANNOTATION(release_capability(__VA_ARGS__))
// Of functions that are right without the mutex. A comment says why.
#define NO_THREAD_SAFETY_ANALYSIS THREAD_ANNOTATION(no_thread_safety_analysis)
