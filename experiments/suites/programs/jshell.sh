#!/bin/sh
# Java's version, and a shell of it that starts parallel streams and a child process. Its log of preferences tells the
# time.
set -eu
java -version 2>&1 | head -1
printf '%s\n' 'System.out.println(java.util.stream.LongStream.range(0,100000).parallel().sum())' \
    'var input=new ProcessBuilder("echo","child").start().getInputStream()' \
    'System.out.println(new String(input.readAllBytes()))' \
    'var e=Thread.ofVirtual().start(()->System.out.println("virtual")); e.join()' /exit |
    jshell -s -R-XX:+UseG1GC - 2>stderr | grep -v '^$'
