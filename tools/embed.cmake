# SPDX-License-Identifier: Apache-2.0
#
# cmake -DFROM=script.lua -DTO=script.lua.h -P embed.cmake - a text file as a C string literal, line by line. Lines of comment
# alone and indentation stay behind: what is sent to a store on a miss is the code.
file(READ ${FROM} text)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REGEX REPLACE "(^|\n)[ \t]*--[^\n]*" "\\1" text "${text}")
string(REGEX REPLACE "^[ \t\n]+" "" text "${text}")
string(REGEX REPLACE "\n[ \t\n]*" "\\\\n\"\n\"" text "${text}")
file(WRITE ${TO} "\"${text}\"\n")
