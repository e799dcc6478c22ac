/// An error of this package whose description may be logged.
package protocol LoggableError: Error, CustomStringConvertible {}
