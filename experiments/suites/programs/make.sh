#!/bin/sh
# Compiles 30 C++ files by make -j 4 with link-time optimisation on two threads; runs the result.
set -eu
for n in $(seq 30); do
    echo "#include <mutex>
#include <string>
static std::mutex m;
std::string f$n() { std::lock_guard l(m); return std::to_string($n * 7); }" >"f$n.cc"
done
{
    printf '#include <cstdio>\n#include <string>\n'
    for n in $(seq 30); do echo "std::string f$n();"; done
    echo 'int main() { std::string s;'
    for n in $(seq 30); do echo "s += f$n();"; done
    echo 'puts(s.c_str()); }'
} >main.cc
printf '%s\n' 'OBJECTS = $(patsubst %.cc,%.o,$(wildcard *.cc))' \
    'program: $(OBJECTS)' '	g++ -flto=2 -O1 $^ -o $@' \
    '%.o: %.cc' '	g++ -pipe -flto=2 -O1 -c $< -o $@' >Makefile
make -s -j4 -O
./program
