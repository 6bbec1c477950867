"""The mailer: mail commands in, mails out by SMTP."""
