# SPDX-License-Identifier: Apache-2.0
#
# What test_http1_node.py asks beside Node: our parser as a filter from heads to verdicts.
add_executable(http1_verdict ${CMAKE_CURRENT_LIST_DIR}/http1_verdict.c)
target_link_libraries(http1_verdict PRIVATE weir_everything)

# What test_rls_protoc.py asks beside protoc: our codec of the rate limit service.
add_executable(rls_codec ${CMAKE_CURRENT_LIST_DIR}/rls_codec.c)
target_link_libraries(rls_codec PRIVATE weir_everything)
