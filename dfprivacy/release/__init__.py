"""Release answers: check, measure, pay, draw, read, wrap. Nothing else can make noise."""
