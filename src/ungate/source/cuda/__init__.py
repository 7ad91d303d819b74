"""Reading CUDA, C and C++: directives line by line, conditions one at a time, host comparisons by what they compare."""
