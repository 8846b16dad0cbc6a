# SPDX-License-Identifier: Apache-2.0
#
# The public headers must also compile as C++, with warnings on: test CTest `headers_cxx`. And weir_bucket.h must
# stand alone, without libc: `bucket_freestanding` is built, not run.
set(here ${CMAKE_CURRENT_LIST_DIR})
add_executable(headers_cxx ${here}/headers_cxx.cpp)
target_include_directories(headers_cxx PRIVATE ${CMAKE_SOURCE_DIR}/include)
target_compile_options(headers_cxx PRIVATE -Wall -Wextra -Wpedantic -Werror)
add_test(NAME headers_cxx COMMAND headers_cxx)

add_library(bucket_freestanding OBJECT ${here}/bucket_freestanding.c)
target_include_directories(bucket_freestanding PRIVATE ${CMAKE_SOURCE_DIR}/include)
target_compile_options(bucket_freestanding PRIVATE -ffreestanding -Wall -Wextra -Wpedantic -Werror)
