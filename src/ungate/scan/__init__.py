"""Where are the gates?"""
