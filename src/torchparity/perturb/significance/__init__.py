"""The significant bits of an API's result, and whether its conditioning or its kernel is the reason.

noise               random last bits, and the same inputs in float64
matrix_algorithms   how far sound algorithms on matrices may be off
estimate            significant bits, condition and own error of one call
summary             calls ranked by API and by module
listener            the listener that does this for the selected calls
"""
