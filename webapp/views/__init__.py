"""The only package that knows Flask: machines' endpoints, pages, fragments. Each module makes one blueprint."""
