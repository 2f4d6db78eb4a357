"""The web server: one loop that reads requests and writes answers, threads for the requests that take time.

Read in this order; each module imports only what stands above it:

    tls           the certificate
    http_messages requests read out of bytes, answers written as bytes
    channels      one connection
    serving       all of them
"""
